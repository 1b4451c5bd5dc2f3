//! The agent of WSO2's products, by which Java programs publish events, from Maven Central as it is.
//!
//! A program of ours calls it: it publishes events of every type as lines on its standard input ask for them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::place::kept;
use crate::{Error, answers, is_required, run, tool};

const VERSION: &str = "5.2.26";

const EDITION: &str = "5.2.26-a";

/// That of stores of trusted certificates.
const PASSWORD: &str = "wso2carbon";

/// The agent's own parts.
const PARTS: [&str; 4] = ["agent", "commons", "commons.thrift", "commons.binary"];

/// What they need, as they were released with; not all that their descriptions name is on Maven Central.
const OTHERS: [(&str, &str, &str); 9] = [
    ("org.apache.thrift", "libthrift", "0.9.2"),
    ("commons-pool", "commons-pool", "1.5.6"),
    ("com.lmax", "disruptor", "3.3.2"),
    ("commons-logging", "commons-logging", "1.2"),
    ("com.google.code.gson", "gson", "2.8.9"),
    ("org.json", "json", "20090211"),
    ("javax.xml.bind", "jaxb-api", "2.3.1"),
    ("org.glassfish.jaxb", "jaxb-runtime", "2.3.9"),
    ("org.slf4j", "slf4j-simple", "1.5.8"),
];

/// Arguments: protocol, URL of the receiver, URL of its login, user, password, stream, and the agent's
/// configuration. A line `events FROM TO` publishes those, `nulls FROM TO` the same with null for every
/// value but the first; the end of the input lets the agent send what it has.
const MAIN: &str = r#"
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.wso2.carbon.databridge.agent.AgentHolder;
import org.wso2.carbon.databridge.agent.DataPublisher;
import org.wso2.carbon.databridge.commons.Event;

public class Main {
    public static void main(String[] args) throws Exception {
        AgentHolder.setConfigPath(args[6]);
        DataPublisher publisher = new DataPublisher(args[0], args[1], args[2], args[3], args[4]);
        System.out.println("logged in");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            boolean isNull = words[0].equals("nulls");
            for (int n = Integer.parseInt(words[1]); n < Integer.parseInt(words[2]); n++) {
                publisher.publish(event(args[5], n, isNull));
            }
            System.out.println("published " + line);
        }
        publisher.shutdownWithAgent();
        System.out.println("ended");
        System.exit(0);
    }

    static Event event(String stream, int n, boolean isNull) {
        Object[] meta = {"m" + n};
        Object[] correlation = {isNull ? null : "c\u00e9" + n % 10};
        Object[] payload = isNull ? new Object[6] : new Object[] {
            n, n * 1000000007L, n + 0.5f, n / 4.0, n % 2 == 0, n % 5 == 0 ? null : "t" + n};
        Map<String, String> map = new HashMap<>();
        if (!isNull) map.put("folder", "f" + n % 3);
        return new Event(stream, 1700000000000L + n, meta, correlation, payload, map);
    }
}
"#;

/// The agent, before its arguments, that trusts the certificates of a store: its binary client asks the properties of
/// Java alone for them. `None`, which is said, where this machine lacks something, unless
/// `HEADWATER_SERVERS=required` asks for all that tests can use.
///
/// # Panics
/// It cannot be made.
pub fn wso2_agent_or_skip(trust: &str) -> Option<Command> {
    match kept("wso2-agent", EDITION, install) {
        Ok(at) => {
            let at = at.display();
            let mut command = Command::new("java");
            command
                .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
                .arg(format!("-Djavax.net.ssl.trustStore={trust}"))
                .arg(format!("-Djavax.net.ssl.trustStorePassword={PASSWORD}"))
                .arg("-cp")
                .arg(format!("{at}:{at}/lib/*"))
                .arg("Main");
            Some(command)
        }
        Err(error @ Error::Missing { .. }) if !is_required() => {
            tool::say(&format!("skipped: no agent of WSO2: {error}"));
            None
        }
        Err(error) => panic!("the agent of WSO2 cannot be had: {error}"),
    }
}

/// What `data-agent-config.xml` holds for an agent that trusts the certificates of a store.
///
/// A connection that has failed goes back to the agent's pool, and leaves it only when it has been idle for long
/// enough. As in the agent's defaults (5 s of 30 s) that is less than the time between two tries; else the same
/// dead connections may be tried again for minutes.
pub fn wso2_agent_config(trust: &str) -> String {
    let agents = [("Thrift", "thrift"), ("Binary", "binary")].map(|(name, package)| {
        format!(
            "<Agent><Name>{name}</Name><DataEndpointClass>org.wso2.carbon.databridge.agent.endpoint.{package}.\
             {name}DataEndpoint</DataEndpointClass><PublishingStrategy>async</PublishingStrategy>\
             <TrustSore>{trust}</TrustSore><TrustSorePassword>{PASSWORD}</TrustSorePassword>\
             <QueueSize>32768</QueueSize><BatchSize>200</BatchSize><CorePoolSize>5</CorePoolSize>\
             <MaxPoolSize>10</MaxPoolSize><SocketTimeoutMS>30000</SocketTimeoutMS>\
             <KeepAliveTimeInPool>20</KeepAliveTimeInPool><ReconnectionInterval>1</ReconnectionInterval>\
             <MaxTransportPoolSize>250</MaxTransportPoolSize><MaxIdleConnections>250</MaxIdleConnections>\
             <EvictionTimePeriod>300</EvictionTimePeriod><MinIdleTimeInPool>200</MinIdleTimeInPool>\
             <SecureMaxTransportPoolSize>250</SecureMaxTransportPoolSize>\
             <SecureMaxIdleConnections>250</SecureMaxIdleConnections>\
             <SecureEvictionTimePeriod>300</SecureEvictionTimePeriod>\
             <SecureMinIdleTimeInPool>200</SecureMinIdleTimeInPool></Agent>"
        )
    });
    format!(
        "<DataAgentsConfiguration>{}</DataAgentsConfiguration>",
        agents.concat()
    )
}

fn install(into: &Path) -> Result<(), Error> {
    for (name, package) in [("javac", "default-jdk-headless"), ("mvn", "maven")] {
        if !answers(name, &["--version"]) {
            let remedy = format!("apt-get install {package} brings it");
            return Err(Error::missing(format!("there is no '{name}'"), remedy));
        }
    }
    let said = |e| Error::failed("the installation cannot be written", e);
    fs::write(into.join("pom.xml"), pom()).map_err(said)?;
    fs::write(into.join("Main.java"), MAIN).map_err(said)?;
    run(Command::new("mvn")
        .args(["-q", "-B", "dependency:copy-dependencies"])
        .arg(format!("-DoutputDirectory={}", into.join("lib").display()))
        .current_dir(into))
    .map_err(|error| {
        let what = format!("the agent of WSO2 cannot be had from Maven Central: {error}");
        Error::missing(what, "connect this machine to it")
    })?;
    run(Command::new("javac")
        .args(["-encoding", "UTF-8", "-cp", "lib/*", "Main.java"])
        .current_dir(into))?;
    Ok(())
}

fn pom() -> String {
    let own = PARTS.map(|part| {
        format!(
            "<dependency><groupId>org.wso2.carbon.analytics-common</groupId>\
             <artifactId>org.wso2.carbon.databridge.{part}</artifactId><version>{VERSION}</version>{ALONE}\
             </dependency>"
        )
    });
    let others = OTHERS.map(|(group, name, version)| {
        // Of the same reason: what is named for servlets is not needed.
        let alone = if name == "libthrift" { ALONE } else { "" };
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>\
             {alone}</dependency>"
        )
    });
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>headwater</groupId><artifactId>test-client-wso2</artifactId><version>1</version>\
         <packaging>pom</packaging><dependencies>{}{}</dependencies></project>",
        own.concat(),
        others.concat()
    )
}

/// Without what its description says that it needs.
const ALONE: &str = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>";
