//! The process group of a program under test.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;

/// A process group that is killed once, at the latest when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    /// The leader's number is the group's. It is forgotten with the kill: once all have ended, it can become
    /// another's.
    leader: Option<Pid>,
}

impl Group {
    /// The group that `child` was started to lead.
    pub(super) fn of(child: &Child) -> Self {
        Self { leader: child.id().and_then(pid) }
    }

    /// Kills what is in the group, and tells whether anything in it was alive.
    pub(super) fn kill(&mut self) -> bool {
        let Some(leader) = self.leader.take() else {
            return false;
        };
        let was_alive = test_kill_process_group(leader).is_ok() && is_alive(leader);
        // It fails when nobody is left, which is what is wanted.
        let _ = kill_process_group(leader, Signal::KILL);
        was_alive
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// Whether a group that has members has one that still runs. Those that have ended are members until somebody has
/// waited for them, which after their parent's end may take a while; only /proc tells them apart.
fn is_alive(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return true;
    };
    let group = group.as_raw_nonzero().to_string();
    let mut stats = processes
        .flatten()
        .filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok())
        .peekable();
    stats.peek().is_none() || stats.any(|stat| runs_in(&stat, &group))
}

/// Reads a `/proc/<pid>/stat`: number, name in brackets, state, parent, group, …
fn runs_in(stat: &str, group: &str) -> bool {
    let Some((_, stat)) = stat.rsplit_once(')') else {
        return false;
    };
    let mut fields = stat.split_whitespace();
    let has_ended = matches!(fields.next(), Some("Z" | "X"));
    !has_ended && fields.nth(1) == Some(group)
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::{CommandExt, ExitStatusExt},
        process::{Command, Stdio},
    };

    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;

    #[test]
    fn what_lives_in_a_group_is_killed_once() {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let leader = pid(child.id());
        let mut group = Group { leader };
        assert!(group.kill());
        assert!(!group.kill());
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(!Group { leader }.kill());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_nobody_has_waited_for_does_not_live() {
        let mut child = Command::new("true").process_group(0).spawn().unwrap();
        let leader = pid(child.id()).unwrap();
        // It has ended, and stays in its group until it is waited for in earnest.
        waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(test_kill_process_group(leader).is_ok());
        assert!(!Group { leader: Some(leader) }.kill());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_process_runs_in_its_group_until_it_has_ended() {
        assert!(runs_in("12 (a) b) S 1 11 11 0", "11"));
        assert!(!runs_in("12 (sh) Z 1 11 11 0", "11"));
        assert!(!runs_in("12 (sh) S 1 12 11 0", "11"));
        assert!(!runs_in("11 (11", "11"));
    }
}
