//! Answers that leave for their clients, and whether those stay for the slow ones.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::run::Run;
use crate::call::Sent;

/// An answer that leaves for its client.
pub(super) struct Outgoing {
    pub(super) sent: Sent,
    /// Who waits to be told that the client has it, if it is a slow one.
    pub(super) witness: Option<Witness>,
}

/// Tells a run that a client has a slow answer; dropped before, that the client did not stay for it.
pub(super) struct Witness {
    run: Arc<Run>,
    sent: Sent,
    has_it: oneshot::Sender<()>,
}

impl Outgoing {
    /// An answer that takes so long, if it is a slow one.
    ///
    /// Written down is then that the client has it, when it has; or else, when it should have, that the client did
    /// not stay, whenever that came to light.
    pub(super) fn new(run: &Arc<Run>, sent: Sent, time: Duration) -> Self {
        if !sent.is_on_its_way() {
            return Self { sent, witness: None };
        }
        let end = run.now().saturating_add(time);
        let (has_it, delivered) = oneshot::channel();
        let witness = Witness { run: Arc::clone(run), sent: sent.clone(), has_it };
        let (run, abandoned) = (Arc::clone(run), sent.clone());
        tokio::spawn(async move {
            if delivered.await.is_err() {
                run.wait_until(end).await;
                run.with_bank(|bank| bank.abandoned(&abandoned));
            }
        });
        Self { sent, witness: Some(witness) }
    }
}

impl Witness {
    /// To be said before the last bytes are handed over, so that whatever the client sends next comes after it.
    pub(super) fn delivered(self) {
        self.run.with_bank(|bank| bank.delivered(&self.sent));
        let _heard = self.has_it.send(());
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness").field("sent", &self.sent).finish_non_exhaustive()
    }
}
