//! Logins: PLAIN (RFC 4616) and SCRAM with SHA-256 and SHA-512 (RFC 5802, 7677).
//!
//! Never: a password in a message, or a server that is believed without its proof.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SecureRandom as _;
use ring::{digest, hmac, pbkdf2, rand};

/// What a server may ask for in rounds; more would hold up the thread that serves connections.
const ROUNDS_MAX: u32 = 100_000;

/// Random bytes of a login.
const NONCE: usize = 18;

/// The header of a client that binds no channel, in Base64.
const NO_BINDING: &str = "biws";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mechanism {
    Plain,
    Sha256,
    Sha512,
}

#[derive(Clone)]
pub(super) struct Login {
    pub mechanism: Mechanism,
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

impl Mechanism {
    pub fn named(name: &str) -> Option<Mechanism> {
        Some(match name {
            "PLAIN" => Mechanism::Plain,
            "SCRAM-SHA-256" => Mechanism::Sha256,
            "SCRAM-SHA-512" => Mechanism::Sha512,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::Sha256 => "SCRAM-SHA-256",
            Mechanism::Sha512 => "SCRAM-SHA-512",
        }
    }
}

impl Login {
    /// All that PLAIN says.
    pub fn plain(&self) -> Vec<u8> {
        format!("\0{}\0{}", self.user, self.password).into_bytes()
    }

    /// Begins a login by SCRAM.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn scram(&self) -> Result<Scram<'_>, String> {
        let mut nonce = [0; NONCE];
        let filled = rand::SystemRandom::new().fill(&mut nonce);
        filled.map_err(|_| "the system gives no random numbers")?;
        Ok(Scram::with_nonce(self, STANDARD.encode(nonce)))
    }
}

/// A login by SCRAM that goes on.
pub(super) struct Scram<'a> {
    login: &'a Login,
    nonce: String,
    /// Without the header of the first message.
    first: String,
    proof_of_server: Vec<u8>,
}

impl<'a> Scram<'a> {
    fn with_nonce(login: &'a Login, nonce: String) -> Scram<'a> {
        let user = login.user.replace('=', "=3D").replace(',', "=2C");
        Scram {
            login,
            first: format!("n={user},r={nonce}"),
            nonce,
            proof_of_server: Vec::new(),
        }
    }

    pub fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.first).into_bytes()
    }

    /// Answers what the server has said first.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn answer(&mut self, server_first: &[u8]) -> Result<Vec<u8>, String> {
        let said = std::str::from_utf8(server_first).map_err(|_| "the login is not text")?;
        let nonce = field(said, 'r').filter(|nonce| nonce.starts_with(&self.nonce));
        let nonce = nonce.ok_or("the broker answers to another login")?;
        let salt = field(said, 's').and_then(|salt| STANDARD.decode(salt).ok());
        let salt = salt.ok_or("the broker gives no salt")?;
        let rounds = field(said, 'i').and_then(|rounds| rounds.parse().ok());
        let rounds = rounds.filter(|rounds: &NonZeroU32| rounds.get() <= ROUNDS_MAX);
        let rounds = rounds.ok_or_else(|| {
            format!("the broker does not ask for 1 to {ROUNDS_MAX} iterations of SCRAM")
        })?;
        let (derive, mac, hash) = match self.login.mechanism {
            Mechanism::Sha512 => (
                pbkdf2::PBKDF2_HMAC_SHA512,
                hmac::HMAC_SHA512,
                &digest::SHA512,
            ),
            _ => (
                pbkdf2::PBKDF2_HMAC_SHA256,
                hmac::HMAC_SHA256,
                &digest::SHA256,
            ),
        };
        let mut salted = vec![0; hash.output_len()];
        pbkdf2::derive(
            derive,
            rounds,
            &salt,
            self.login.password.as_bytes(),
            &mut salted,
        );
        let key = hmac::Key::new(mac, &salted);
        let without_proof = format!("c={NO_BINDING},r={nonce}");
        let exchanged = format!("{},{said},{without_proof}", self.first);
        let sign = |key: &[u8]| hmac::sign(&hmac::Key::new(mac, key), exchanged.as_bytes());
        let client_key = hmac::sign(&key, b"Client Key");
        let signature = sign(digest::digest(hash, client_key.as_ref()).as_ref());
        let proof = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = proof.map(|(key, signature)| key ^ signature).collect();
        let server_key = hmac::sign(&key, b"Server Key");
        self.proof_of_server = sign(server_key.as_ref()).as_ref().to_vec();
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)).into_bytes())
    }

    /// Judges what the server has said last.
    ///
    /// # Errors
    /// It does not know the password either.
    pub fn judge(&self, server_final: &[u8]) -> Result<(), String> {
        let said = std::str::from_utf8(server_final).map_err(|_| "the login is not text")?;
        let proof = field(said, 'v').and_then(|proof| STANDARD.decode(proof).ok());
        match proof.is_some_and(|proof| proof == self.proof_of_server) {
            true => Ok(()),
            false => Err("the broker does not prove that it knows the login".to_owned()),
        }
    }
}

/// The value of a field: `r=…,s=…`.
fn field(text: &str, name: char) -> Option<&str> {
    let mut fields = text.split(',');
    fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(mechanism: Mechanism) -> Login {
        Login {
            mechanism,
            user: "user".into(),
            password: "pencil".into(),
        }
    }

    /// The example of RFC 7677.
    #[test]
    fn a_login_by_scram_is_that_of_its_standard() {
        let login = login(Mechanism::Sha256);
        let mut scram = Scram::with_nonce(&login, "rOprNGfwEbeRWgbNEkqO".into());
        assert_eq!(scram.first(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let answer = scram.answer(server).expect("it is right");
        let expect = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                      p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(String::from_utf8_lossy(&answer), expect);
        assert_eq!(
            scram.judge(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="),
            Ok(())
        );
        assert!(scram.judge(b"v=AAAA").is_err());
        assert!(scram.judge(b"e=invalid-proof").is_err());
    }

    #[test]
    fn a_server_that_lies_is_refused_and_no_password_is_told() {
        let login = login(Mechanism::Sha512);
        let mut scram = Scram::with_nonce(&login, "abc".into());
        for (said, cause) in [
            ("r=other,s=W22Z,i=4096", "another login"),
            ("r=abcd,s=*,i=4096", "no salt"),
            ("r=abcd,s=W22Z,i=100001", "iterations"),
            ("r=abcd,s=W22Z,i=0", "iterations"),
        ] {
            let error = scram.answer(said.as_bytes()).unwrap_err();
            assert!(error.contains(cause), "{error}");
        }
        assert!(!format!("{login:?}").contains("pencil"));
        assert_eq!(login.plain(), b"\0user\0pencil");
    }
}
