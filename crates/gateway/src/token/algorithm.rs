//! The algorithms by which tokens are signed (RFC 7518, 3.1; RFC 8037).

use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, EcdsaVerificationAlgorithm,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
};

/// One that may be pinned to an issuer or a key. `none` is not among them, in any spelling.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    /// Ed25519 alone.
    EdDsa,
    Hs256,
    Hs384,
    Hs512,
}

/// How an algorithm checks a signature: what kind of key it takes.
pub(super) enum Method {
    Rsa(&'static RsaParameters),
    P256(&'static EcdsaVerificationAlgorithm),
    P384(&'static EcdsaVerificationAlgorithm),
    Ed25519,
    Hmac(hmac::Algorithm),
}

impl Algorithm {
    pub const ALL: [Algorithm; 12] = [
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
        Algorithm::Hs256,
        Algorithm::Hs384,
        Algorithm::Hs512,
    ];

    /// As it stands in a header; the case counts.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::EdDsa => "EdDSA",
            Algorithm::Hs256 => "HS256",
            Algorithm::Hs384 => "HS384",
            Algorithm::Hs512 => "HS512",
        }
    }

    pub fn parse(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Who can check a signature can make one.
    pub fn is_symmetric(self) -> bool {
        self.secret_bytes_min().is_some()
    }

    /// A secret has at least the size of the digest (RFC 7518, 3.2).
    pub(super) fn secret_bytes_min(self) -> Option<usize> {
        match self {
            Algorithm::Hs256 => Some(32),
            Algorithm::Hs384 => Some(48),
            Algorithm::Hs512 => Some(64),
            _ => None,
        }
    }

    pub(super) fn method(self) -> Method {
        match self {
            Algorithm::Rs256 => Method::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::Rs384 => Method::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::Rs512 => Method::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Algorithm::Ps256 => Method::Rsa(&RSA_PSS_2048_8192_SHA256),
            Algorithm::Ps384 => Method::Rsa(&RSA_PSS_2048_8192_SHA384),
            Algorithm::Ps512 => Method::Rsa(&RSA_PSS_2048_8192_SHA512),
            Algorithm::Es256 => Method::P256(&ECDSA_P256_SHA256_FIXED),
            Algorithm::Es384 => Method::P384(&ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDsa => Method::Ed25519,
            Algorithm::Hs256 => Method::Hmac(hmac::HMAC_SHA256),
            Algorithm::Hs384 => Method::Hmac(hmac::HMAC_SHA384),
            Algorithm::Hs512 => Method::Hmac(hmac::HMAC_SHA512),
        }
    }
}
