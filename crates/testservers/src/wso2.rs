//! The agent of WSO2's products, by which Java programs publish events, and their receiver, from Maven Central as they
//! are.
//!
//! Programs of ours call them: one publishes events of every type as lines on its standard input ask for them, one
//! prints what it receives.

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

const RECEIVER_EDITION: &str = "5.2.26-r1";

/// The receiver's own parts, beside [`PARTS`]; that of the binary protocol is not on Maven Central.
const RECEIVER_PARTS: [&str; 2] = ["core", "receiver.thrift"];

/// What else the receiver needs.
const RECEIVER_OTHERS: [(&str, &str, &str); 1] = [("com.google.guava", "guava", "19.0")];

/// Classes of Carbon that the receiver names and that are not on Maven Central: where they say which key store is used,
/// this is a property of Java.
const CARBON: [(&str, &str); 3] = [
    (
        "org/wso2/carbon/user/api/UserStoreException.java",
        "package org.wso2.carbon.user.api;\npublic class UserStoreException extends Exception {}\n",
    ),
    (
        "org/wso2/carbon/base/api/ServerConfigurationService.java",
        "package org.wso2.carbon.base.api;\npublic interface ServerConfigurationService { String getFirstProperty(String key); }\n",
    ),
    (
        "org/wso2/carbon/base/ServerConfiguration.java",
        "package org.wso2.carbon.base;
public class ServerConfiguration implements org.wso2.carbon.base.api.ServerConfigurationService {
    private static final ServerConfiguration ONE = new ServerConfiguration();
    public static ServerConfiguration getInstance() { return ONE; }
    public String getFirstProperty(String key) { return System.getProperty(key); }
}
",
    ),
];

/// Arguments: port, port with TLS, user, password. Prints `listens`, `defined ID` for each definition of a stream, and a
/// line for each event.
const RECEIVER: &str = r#"
import java.util.List;
import java.util.TreeMap;
import org.wso2.carbon.databridge.commons.Credentials;
import org.wso2.carbon.databridge.commons.Event;
import org.wso2.carbon.databridge.commons.StreamDefinition;
import org.wso2.carbon.databridge.core.AgentCallback;
import org.wso2.carbon.databridge.core.DataBridge;
import org.wso2.carbon.databridge.core.Utils.AgentSession;
import org.wso2.carbon.databridge.core.conf.DataBridgeConfiguration;
import org.wso2.carbon.databridge.core.definitionstore.InMemoryStreamDefinitionStore;
import org.wso2.carbon.databridge.core.internal.authentication.AuthenticationHandler;
import org.wso2.carbon.databridge.receiver.thrift.ThriftDataReceiver;

public class Receiver {
    public static void main(String[] args) throws Exception {
        System.setOut(new java.io.PrintStream(System.out, true, "UTF-8"));
        DataBridgeConfiguration configuration = new DataBridgeConfiguration();
        DataBridge bridge = new DataBridge(new AuthenticationHandler() {
            public boolean authenticate(String user, String password) {
                return user.equals(args[2]) && password.equals(args[3]);
            }
            public String getTenantDomain(String user) { return "carbon.super"; }
            public int getTenantId(String domain) { return -1234; }
            public void initContext(AgentSession session) {}
            public void destroyContext(AgentSession session) {}
        }, new InMemoryStreamDefinitionStore(), configuration);
        configuration.setKeyStoreLocation(System.getProperty("Security.KeyStore.Location"));
        configuration.setKeyStorePassword(System.getProperty("Security.KeyStore.Password"));
        bridge.setInitialConfig(configuration);
        bridge.subscribe(new AgentCallback() {
            public void definedStream(StreamDefinition definition, int tenant) {
                System.out.println("defined " + definition.getStreamId());
            }
            public void removeStream(StreamDefinition definition, int tenant) {}
            public void receive(List<Event> events, Credentials credentials) {
                for (Event event : events) {
                    StringBuilder line = new StringBuilder("event " + event.getStreamId());
                    Object[][] parts = {event.getMetaData(), event.getCorrelationData(), event.getPayloadData()};
                    for (Object[] part : parts) {
                        line.append(" |");
                        if (part != null) for (Object value : part) line.append(" ").append(value);
                    }
                    Object map = event.getArbitraryDataMap();
                    System.out.println(line + " | " + (map == null ? "{}" : new TreeMap<>(event.getArbitraryDataMap())));
                }
            }
        });
        int port = Integer.parseInt(args[0]);
        new ThriftDataReceiver(Integer.parseInt(args[1]), port, bridge).start("127.0.0.1");
        System.out.println("listens");
    }
}
"#;

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

/// The receiver, before its arguments, with the key and certificate of a store. `None` as for the agent.
///
/// # Panics
/// It cannot be made.
pub fn wso2_receiver_or_skip(key: &str) -> Option<Command> {
    match kept("wso2-receiver", RECEIVER_EDITION, install_receiver) {
        Ok(at) => {
            let at = at.display();
            let mut command = Command::new("java");
            command
                .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
                .arg(format!("-DSecurity.KeyStore.Location={key}"))
                .arg(format!("-DSecurity.KeyStore.Password={PASSWORD}"))
                .arg("-cp")
                .arg(format!("{at}:{at}/lib/*"))
                .arg("Receiver");
            Some(command)
        }
        Err(error @ Error::Missing { .. }) if !is_required() => {
            tool::say(&format!("skipped: no receiver of WSO2: {error}"));
            None
        }
        Err(error) => panic!("the receiver of WSO2 cannot be had: {error}"),
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
    compile(into, &PARTS, &OTHERS, &[("Main.java", MAIN)])
}

fn install_receiver(into: &Path) -> Result<(), Error> {
    let parts = [&PARTS[..], &RECEIVER_PARTS].concat();
    let others = [&OTHERS[..], &RECEIVER_OTHERS].concat();
    let sources = [&CARBON[..], &[("Receiver.java", RECEIVER)]].concat();
    compile(into, &parts, &others, &sources)
}

/// Fetches parts and what they need, and compiles sources against them.
fn compile(
    into: &Path,
    parts: &[&str],
    others: &[(&str, &str, &str)],
    sources: &[(&str, &str)],
) -> Result<(), Error> {
    for (name, package) in [("javac", "default-jdk-headless"), ("mvn", "maven")] {
        if !answers(name, &["--version"]) {
            let remedy = format!("apt-get install {package} brings it");
            return Err(Error::missing(format!("there is no '{name}'"), remedy));
        }
    }
    let said = |e| Error::failed("the installation cannot be written", e);
    fs::write(into.join("pom.xml"), pom(parts, others)).map_err(said)?;
    for (name, source) in sources {
        let path = into.join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, source)).map_err(said)?;
    }
    run(Command::new("mvn")
        .args(["-q", "-B", "dependency:copy-dependencies"])
        .arg(format!("-DoutputDirectory={}", into.join("lib").display()))
        .current_dir(into))
    .map_err(|error| {
        let what = format!("the libraries of WSO2 cannot be had from Maven Central: {error}");
        Error::missing(what, "connect this machine to it")
    })?;
    run(Command::new("javac")
        .args(["-encoding", "UTF-8", "-cp", "lib/*:."])
        .args(sources.iter().map(|(name, _)| name))
        .current_dir(into))?;
    Ok(())
}

fn pom(parts: &[&str], others: &[(&str, &str, &str)]) -> String {
    let own = parts.iter().map(|part| {
        format!(
            "<dependency><groupId>org.wso2.carbon.analytics-common</groupId>\
             <artifactId>org.wso2.carbon.databridge.{part}</artifactId><version>{VERSION}</version>{ALONE}\
             </dependency>"
        )
    });
    let others = others.iter().map(|(group, name, version)| {
        // Of the same reason: what is named for servlets is not needed.
        let alone = if *name == "libthrift" { ALONE } else { "" };
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>\
             {alone}</dependency>"
        )
    });
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>headwater</groupId><artifactId>test-client-wso2</artifactId><version>1</version>\
         <packaging>pom</packaging><dependencies>{}{}</dependencies></project>",
        own.collect::<String>(),
        others.collect::<String>()
    )
}

/// Without what its description says that it needs.
const ALONE: &str = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>";
