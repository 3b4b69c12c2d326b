//! Requests for a server's tools, prompts and resources, page by page and within bounds.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::connection::{Connection, McpError, new_id};
use super::offers::{self, Offers, Prompt, PromptMessage, Resource};
use super::result::ResultPart;
use super::tools::Listing;

/// Maximum number of pages of a list of prompts or resources.
const PAGES_MAX: usize = 64;

impl Connection {
    /// Requests all tools, within the bounds of [`Listing`].
    ///
    /// # Errors
    /// The server does not answer within the limit, or with an error.
    pub async fn tools(&self, limit: Duration) -> Result<Listing, McpError> {
        let mut listing = Listing::default();
        let all = async {
            let mut cursor = None;
            loop {
                let page = self.page("tools/list", cursor.as_deref()).await?;
                cursor = listing.take(&page);
                if cursor.is_none() {
                    return Ok(());
                }
            }
        };
        within(limit, "tools/list", all).await.map(|()| listing)
    }

    /// Requests all prompts and resources. The limit applies to each list.
    ///
    /// # Errors
    /// The server does not answer within the limit, or with an error.
    pub async fn offers(&self, limit: Duration) -> Result<Offers, McpError> {
        let mut offers = Offers::default();
        if self.known().has_prompts {
            offers.prompts = self.prompts(limit).await?;
        }
        if self.known().has_resources {
            offers.resources = self.resources(limit).await?;
        }
        Ok(offers)
    }

    /// Returns the server's prompts, within bounds.
    ///
    /// # Errors
    /// The server does not answer within the limit, or with an error.
    pub async fn prompts(&self, limit: Duration) -> Result<Vec<Prompt>, McpError> {
        let mut taken = Vec::new();
        let all = self.pages("prompts/list", |page| offers::prompts(page, &mut taken));
        within(limit, "prompts/list", all).await.map(|()| taken)
    }

    /// # Errors
    /// The server does not answer within the limit, or with an error.
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<Vec<PromptMessage>, McpError> {
        let params = json!({ "name": name, "arguments": arguments });
        let id = new_id();
        let got = self.rounds(&id, "prompts/get", params, false);
        let got = within(limit, "prompts/get", got).await?;
        Ok(offers::messages(&got))
    }

    /// # Errors
    /// The server does not answer within the limit, or with an error.
    pub async fn resources(&self, limit: Duration) -> Result<Vec<Resource>, McpError> {
        let mut taken = Vec::new();
        let all = self.pages("resources/list", |page| offers::resources(page, &mut taken));
        within(limit, "resources/list", all).await.map(|()| taken)
    }

    /// # Errors
    /// The server does not answer within the limit, or with an error.
    pub async fn read_resource(
        &self,
        uri: &str,
        limit: Duration,
    ) -> Result<Vec<ResultPart>, McpError> {
        let id = new_id();
        let got = self.rounds(&id, "resources/read", json!({ "uri": uri }), false);
        let got = within(limit, "resources/read", got).await?;
        Ok(offers::contents(&got))
    }

    /// Requests the pages of a list, until it ends, repeats itself or is too long.
    async fn pages(&self, method: &str, mut take: impl FnMut(&Value)) -> Result<(), McpError> {
        let mut seen = HashSet::new();
        let mut cursor = None;
        loop {
            let page = self.page(method, cursor.as_deref()).await?;
            take(&page);
            cursor = page["nextCursor"].as_str().map(str::to_string);
            let is_new = cursor.clone().is_some_and(|cursor| seen.insert(cursor));
            if !is_new || seen.len() >= PAGES_MAX {
                return Ok(());
            }
        }
    }

    async fn page(&self, method: &str, cursor: Option<&str>) -> Result<Value, McpError> {
        let params = match cursor {
            Some(cursor) => json!({ "cursor": cursor }),
            None => json!({}),
        };
        self.look(method, params).await
    }
}

async fn within<T>(
    limit: Duration,
    method: &str,
    asked: impl Future<Output = Result<T, McpError>>,
) -> Result<T, McpError> {
    match tokio::time::timeout(limit, asked).await {
        Ok(done) => done,
        Err(_) => Err(McpError::Late {
            method: method.to_string(),
            limit,
        }),
    }
}
