//! A workspace of a user with a data folder, in which sessions are taken up as `rewake -r` does.

use rewake::config::{self, Env, Paths};
use rewake::core::entry::Record;
use rewake::session::{AppContext, SessionError};
use rewake::store::{SessionLock, Store, StoreError};
use rewake::workspace::here;

use super::scene::Scene;

pub struct Place {
    pub scene: Scene,
    pub ctx: AppContext,
}

/// The entries of a session, or why it cannot go on.
pub type TakenUp = Result<Vec<Record>, StoreError>;

impl Place {
    pub fn new() -> Place {
        let scene = Scene::new();
        let user = scene.dir.path().join("user");
        let work = user.join("work");
        std::fs::create_dir_all(&work).unwrap();
        let env = Env::new([("HOME", user.to_str().unwrap())], work.clone());
        let mut paths = Paths::new(&env).unwrap();
        paths.data_dir = scene.data();
        paths.state_dir = scene.dir.path().join("state");
        let here = here(&work).unwrap();
        let loaded = config::load(&env, &paths, &here.root, &[]).unwrap();
        let ctx = AppContext {
            env,
            paths,
            here,
            loaded,
            given: Default::default(),
            flags: Vec::new(),
        };
        Place { scene, ctx }
    }

    /// What `rewake -r ID` does up to the first step, and the store for what comes next.
    pub fn take_up(&self, store: Store, id: &str) -> Result<(Store, TakenUp), StoreError> {
        let taken_up = self.ctx.recovering(store, |mut store| {
            let info = store.history().find(id)?;
            let _lock = SessionLock::take(&self.scene.data(), &info.id)?;
            store.take_up(id)?;
            let (_, log) = store.load(id)?;
            Ok((store, log))
        });
        match taken_up {
            Ok((store, log)) => Ok((store, Ok(log))),
            Err(SessionError::Store(error)) => Ok((self.ctx.open_store()?, Err(error))),
            Err(error) => panic!("{error}"),
        }
    }
}
