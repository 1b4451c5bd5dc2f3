//! What the tests of Amazon's services share: Moto, and Amazon's own client for Python, which lies
//! beside it.

use std::process::Command;

use testservers::{Lent, Running};

/// Moto as it is reached by the port itself.
fn endpoint(server: &Running) -> String {
    let scheme = server.place().setting("tls").map_or("http", |_| "https");
    format!("{scheme}://127.0.0.1:{}", server.port())
}

/// What Amazon's client says. In the script a variable of the service's name is its client, and
/// `client(name)` that of another.
pub fn asked(server: &Running, service: &str, script: &str) -> String {
    let endpoint = endpoint(server);
    let head = format!(
        "import boto3, json, time, urllib.request
def client(name, key='x', secret='x'):
    return boto3.client(name, endpoint_url='{endpoint}', aws_access_key_id=key,
        aws_secret_access_key=secret, region_name='eu-west-1', verify=False)
{service} = client('{service}')
"
    );
    let output = Command::new("python3")
        .env("PYTHONPATH", server.place().installed().join("lib"))
        .args(["-c", &(head + script)])
        .output()
        .expect("python3 is there");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

/// Makes a user who may do what is named.
const USER: &str = "
iam.create_user(UserName='u')
keys = iam.create_access_key(UserName='u')['AccessKey']
iam.put_user_policy(UserName='u', PolicyName='p', PolicyDocument=json.dumps({'Version': '2012-10-17',
    'Statement': [{'Effect': 'Allow', 'Action': [ACTIONS], 'Resource': '*'}]}))
print(keys['AccessKeyId'], keys['SecretAccessKey'])
";

/// Has everybody asked for a signature, and what was signed judged, or nobody.
const JUDGING: &str = "
at = iam.meta.endpoint_url + '/moto-api/reset-auth'
urllib.request.urlopen(urllib.request.Request(at, b'COUNT', {'Content-Type': 'text/plain'})).read()
";

/// Access key and secret key of a user who may do what is named, `'sqs:*'`. From then on the server
/// judges each request: its signature, and what its user may do.
pub fn user(server: &Running, actions: &str) -> (String, String) {
    let script = USER.replace("ACTIONS", actions) + &JUDGING.replace("COUNT", "0");
    let keys = asked(server, "iam", &script);
    let (key, secret) = keys.trim().split_once(' ').expect("two");
    (key.to_owned(), secret.to_owned())
}

/// The server that one test at a time has: without users, queues and buckets, and open to everybody.
pub fn lent() -> Option<Lent> {
    let server = testservers::lent("s3")?;
    let reset = "
at = iam.meta.endpoint_url + '/moto-api/reset'
urllib.request.urlopen(urllib.request.Request(at, b'')).read()
";
    judge_no_more(&server);
    asked(&server, "iam", reset);
    Some(server)
}

/// From then on the server takes what everybody says.
pub fn judge_no_more(server: &Running) {
    asked(server, "iam", &JUDGING.replace("COUNT", "1000000000"));
}
