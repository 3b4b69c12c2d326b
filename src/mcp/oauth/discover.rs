//! Discovery of the authorization server's endpoints from the address of a server.

use reqwest::Url;
use serde_json::Value;

use super::challenge::Challenge;
use super::web::{LoginError, Web, shown};

/// Maximum length of a list of scopes or methods.
const LIST_MAX: usize = 100;

/// The protected resource, and the authorization server whose tokens it accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Resource that a token is requested for.
    pub resource: String,
    /// Authorization server. `None`: the server names none, so it is its own, as in 2025-03-26.
    pub issuer: Option<String>,
    pub scopes: Vec<String>,
}

/// An authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    pub issuer: String,
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    pub registration_endpoint: Option<Url>,
    /// Whether its answers contain its name.
    pub says_issuer: bool,
    /// Whether a client ID may be the address of a document about the client.
    pub takes_documents: bool,
    /// Authentication methods for clients; empty if unknown.
    pub auth_methods: Vec<String>,
    pub scopes: Vec<String>,
}

/// Returns the address that a token is requested for, without the parts that a server never
/// receives.
pub fn canonical(server: &Url) -> String {
    let mut server = server.clone();
    server.set_fragment(None);
    let text = server.to_string();
    match server.path() == "/" && server.query().is_none() {
        true => text.trim_end_matches('/').to_string(),
        false => text,
    }
}

/// Finds the protected resource of `server`.
///
/// # Errors
/// The named resource cannot be requested, or belongs to another server.
pub async fn resource(
    web: &Web,
    server: &Url,
    challenge: &Challenge,
) -> Result<Resource, LoginError> {
    let named = match &challenge.resource_metadata {
        Some(address) => Some(web.check("resource metadata", address)?),
        None => None,
    };
    let places = match &named {
        Some(url) => vec![url.clone()],
        None => well_known(server, "oauth-protected-resource"),
    };
    for place in places {
        if let Some(metadata) = web.get(&place).await?.filter(Value::is_object) {
            return read_resource(server, &metadata);
        }
    }
    if let Some(url) = named {
        return Err(LoginError::new(format!(
            "the server names {} as its resource metadata, where there is none",
            shown(&url)
        )));
    }
    Ok(Resource {
        resource: canonical(server),
        issuer: None,
        scopes: Vec::new(),
    })
}

fn read_resource(server: &Url, metadata: &Value) -> Result<Resource, LoginError> {
    let resource = metadata["resource"].as_str().unwrap_or_default();
    let is_of_server = Url::parse(resource).is_ok_and(|url| covers(&url, server));
    if !is_of_server {
        return Err(LoginError::new(format!(
            "the resource metadata is about {:?}, which is not this server",
            crate::mcp::clean(resource, 200)
        ))
        .with_hint("a token for it would be one for another server; check the address"));
    }
    let issuer = metadata["authorization_servers"][0].as_str();
    Ok(Resource {
        resource: resource.to_string(),
        issuer: issuer.map(str::to_string),
        scopes: texts(&metadata["scopes_supported"]),
    })
}

/// Returns whether `resource` is the same address as the server or one above it.
fn covers(resource: &Url, server: &Url) -> bool {
    let above = resource.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(above);
    let is_above = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    resource.origin() == server.origin() && is_above && resource.fragment().is_none()
}

/// Returns the places of RFC 8615: between host and path, and at the root.
fn well_known(server: &Url, name: &str) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut places = Vec::new();
    for path in [path, ""] {
        let mut place = server.clone();
        place.set_query(None);
        place.set_fragment(None);
        place.set_path(&format!("/.well-known/{name}{path}"));
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Requests the metadata of an authorization server.
///
/// # Errors
/// The server cannot be reached, does not name itself, or lacks a required feature.
pub async fn authority(
    web: &Web,
    server: &Url,
    resource: &Resource,
) -> Result<Authority, LoginError> {
    let Some(issuer) = &resource.issuer else {
        return of_old(web, server).await;
    };
    let url = web.check("authorization server", issuer)?;
    for place in metadata_places(&url) {
        if let Some(metadata) = web.get(&place).await?.filter(Value::is_object) {
            if metadata["issuer"].as_str() != Some(issuer) {
                return Err(LoginError::new(format!(
                    "the metadata at {} is that of another authorization server",
                    shown(&place)
                )));
            }
            return read_authority(web, issuer, &metadata);
        }
    }
    Err(LoginError::new(format!(
        "the authorization server {} has no metadata",
        shown(&url)
    )))
}

fn metadata_places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let paths = match path.is_empty() {
        true => vec![
            "/.well-known/oauth-authorization-server".to_string(),
            "/.well-known/openid-configuration".to_string(),
        ],
        false => vec![
            format!("/.well-known/oauth-authorization-server{path}"),
            format!("/.well-known/openid-configuration{path}"),
            format!("{path}/.well-known/openid-configuration"),
        ],
    };
    let place = |path: String| {
        let mut place = issuer.clone();
        place.set_query(None);
        place.set_path(&path);
        place
    };
    paths.into_iter().map(place).collect()
}

/// Returns the metadata of a server that names no authorization server and so is one itself. The
/// metadata is at its root, or the endpoints have fixed names.
async fn of_old(web: &Web, server: &Url) -> Result<Authority, LoginError> {
    let root = server
        .join("/")
        .map_err(|e| LoginError::new(e.to_string()))?;
    let own = |url: &Url| url.origin() == server.origin();
    if let Some(metadata) = web
        .get(&metadata_places(&root)[0])
        .await?
        .filter(Value::is_object)
    {
        let issuer = metadata["issuer"].as_str().unwrap_or_default();
        let found = read_authority(web, issuer, &metadata)?;
        if !own(&found.authorization_endpoint) || !own(&found.token_endpoint) {
            return Err(LoginError::new(
                "the server names endpoints elsewhere without resource metadata",
            ));
        }
        return Ok(found);
    }
    let endpoint = |path: &str| {
        server
            .join(path)
            .map_err(|e| LoginError::new(e.to_string()))
    };
    Ok(Authority {
        issuer: canonical(&root),
        authorization_endpoint: endpoint("/authorize")?,
        token_endpoint: endpoint("/token")?,
        registration_endpoint: Some(endpoint("/register")?),
        says_issuer: false,
        takes_documents: false,
        auth_methods: Vec::new(),
        scopes: Vec::new(),
    })
}

fn read_authority(web: &Web, issuer: &str, metadata: &Value) -> Result<Authority, LoginError> {
    let endpoint = |name: &str| {
        let address = metadata[name].as_str();
        address.map(|address| web.check(name, address)).transpose()
    };
    let needed = |name: &str| {
        endpoint(name)?.ok_or_else(|| {
            LoginError::new(format!("the authorization server {issuer} has no {name}"))
        })
    };
    // Without PKCE, an intercepted code can be exchanged for a token.
    let challenges = texts(&metadata["code_challenge_methods_supported"]);
    if !challenges.iter().any(|method| method == "S256") {
        return Err(LoginError::new(format!(
            "the authorization server {issuer} does not say that it does PKCE with S256"
        ))
        .with_hint("nobody is logged in without it: ask who runs the server"));
    }
    Ok(Authority {
        issuer: issuer.to_string(),
        authorization_endpoint: needed("authorization_endpoint")?,
        token_endpoint: needed("token_endpoint")?,
        registration_endpoint: endpoint("registration_endpoint")?,
        says_issuer: metadata["authorization_response_iss_parameter_supported"] == true,
        takes_documents: metadata["client_id_metadata_document_supported"] == true,
        auth_methods: texts(&metadata["token_endpoint_auth_methods_supported"]),
        scopes: texts(&metadata["scopes_supported"]),
    })
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    let texts = list.filter_map(|text| text.as_str().map(str::to_string));
    texts.take(LIST_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn metadata_is_looked_for_where_it_may_be() {
        let texts = |places: Vec<Url>| places.iter().map(Url::to_string).collect::<Vec<_>>();
        assert_eq!(
            texts(well_known(&url("https://a.b/mcp/?x=1"), "n")),
            ["https://a.b/.well-known/n/mcp", "https://a.b/.well-known/n"]
        );
        assert_eq!(
            texts(well_known(&url("https://a.b"), "n")),
            ["https://a.b/.well-known/n"]
        );
        assert_eq!(
            texts(metadata_places(&url("https://a.b/t/"))),
            [
                "https://a.b/.well-known/oauth-authorization-server/t",
                "https://a.b/.well-known/openid-configuration/t",
                "https://a.b/t/.well-known/openid-configuration"
            ]
        );
        assert_eq!(metadata_places(&url("https://a.b")).len(), 2);
    }

    #[test]
    fn a_token_for_another_server_is_not_asked_for() {
        let server = url("https://a.b/team/mcp");
        for own in [
            "https://a.b",
            "https://a.b/",
            "https://A.b/team",
            "https://a.b/team/mcp",
        ] {
            let read = read_resource(&server, &json!({ "resource": own })).unwrap();
            assert_eq!(read.resource, own);
        }
        for other in [
            "https://a.c/team/mcp",
            "http://a.b",
            "https://a.b/tea",
            "https://a.b/team/mcp/x",
            "",
            "a.b",
        ] {
            assert!(
                read_resource(&server, &json!({ "resource": other })).is_err(),
                "{other}"
            );
        }
        assert!(read_resource(&server, &json!({})).is_err());
    }

    #[test]
    fn the_address_of_a_server_is_written_in_one_way() {
        assert_eq!(canonical(&url("HTTPS://A.b:443/")), "https://a.b");
        assert_eq!(canonical(&url("https://a.b/mcp/#x")), "https://a.b/mcp/");
    }

    #[tokio::test]
    async fn without_pkce_nobody_is_logged_in() {
        let web = Web::for_server(&url("https://93.184.216.34/"))
            .await
            .unwrap();
        let mut metadata = json!({ "authorization_endpoint": "https://a.b/a",
            "token_endpoint": "https://a.b/t", "code_challenge_methods_supported": ["S256"] });
        assert!(read_authority(&web, "https://a.b", &metadata).is_ok());
        metadata["token_endpoint"] = json!("https://10.0.0.1/t");
        assert!(read_authority(&web, "https://a.b", &metadata).is_err());
        metadata["token_endpoint"] = json!("https://a.b/t");
        metadata["code_challenge_methods_supported"] = json!(["plain"]);
        let refused = read_authority(&web, "https://a.b", &metadata).unwrap_err();
        assert!(refused.message.contains("PKCE"), "{refused}");
    }
}
