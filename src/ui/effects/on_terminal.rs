//! A shell command of the user that has the terminal until it ends: an editor, a pager.
//!
//! It is started as a child of this program, which waits for it: nothing is drawn and no key is
//! read meanwhile. It ends with this program (see [`crate::command::on_terminal`]).

use super::Effects;
use crate::command::on_terminal;
use crate::core::entry::Seq;
use crate::engine::{Command, OnTerminal};
use crate::session::unseen_by_commands;
use crate::ui::app::App;
use crate::ui::terminal::{Screen, with_restored_modes};

impl Effects {
    pub(super) fn on_terminal(
        &mut self,
        entry: Seq,
        command: &str,
        app: &mut App,
        screen: &mut Screen,
    ) {
        let shell = self.ctx.config().shell.program(&self.ctx.env);
        let folder = self.ctx.here.folder.clone();
        let unseen = unseen_by_commands(self.ctx.config(), &self.ctx.env);
        let ended = self.keyboard.lend(screen, || {
            with_restored_modes(|| on_terminal::run(&shell, &folder, &unseen, command))
        });
        app.prompts.quiet.forget();
        let ended = match ended {
            Ok(Ok((exit_code, how))) => OnTerminal { exit_code, how },
            Ok(Err(e)) => OnTerminal {
                exit_code: None,
                how: format!("it could not be started: {e}"),
            },
            Err(e) => OnTerminal {
                exit_code: None,
                how: format!("the terminal did not come back: {e}"),
            },
        };
        self.engines.send(Command::UserCommandOver { entry, ended });
    }
}
