//! A certificate authority of a test's own, as companies have one inside their network.

use std::sync::Arc;

use base64::Engine as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Vec<u8>,
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("make a key");
        let certificate = params.self_signed(&key).expect("sign its own certificate");
        Authority {
            certificate: certificate.der().to_vec(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Its certificate as a file has it.
    pub fn pem(&self) -> String {
        let coded = base64::engine::general_purpose::STANDARD.encode(&self.certificate);
        format!("-----BEGIN CERTIFICATE-----\n{coded}\n-----END CERTIFICATE-----\n")
    }

    /// The certificate and the key of a server of this name, as files have them.
    pub fn files(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("make a key");
        let params = CertificateParams::new([name.to_string()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("sign it");
        let pem = |kind: &str, bytes: &[u8]| {
            let coded = base64::engine::general_purpose::STANDARD.encode(bytes);
            format!("-----BEGIN {kind}-----\n{coded}\n-----END {kind}-----\n")
        };
        (
            pem("CERTIFICATE", certificate.der()),
            pem("PRIVATE KEY", &key.serialize_der()),
        )
    }

    /// For a server of this name or address.
    pub fn server(&self, name: &str) -> Arc<rustls::ServerConfig> {
        let key = KeyPair::generate().expect("make a key");
        let params = CertificateParams::new([name.to_string()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("sign it");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the versions of TLS")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).expect("a key"),
            );
        Arc::new(config.expect("a key that fits its certificate"))
    }
}

impl Default for Authority {
    fn default() -> Authority {
        Authority::new()
    }
}
