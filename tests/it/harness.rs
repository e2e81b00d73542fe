//! The designs as programs: over HTTP they meet what they meet in process.

use badbank::{
    Bank, Seed, Ticket,
    fault::Plan,
    harness::{self, Design, VirtualTime},
    http::Client,
};

use crate::support::TestServer;

#[test]
fn every_design_has_the_same_log_and_grade_over_http_as_in_process() {
    let server = TestServer::start();
    for seed in 1..=20 {
        let ticket = Ticket::generate(seed);
        let plan = Plan::article().seed(seed);
        let seed = Seed::new(seed);
        for design in Design::ALL {
            let mut bank = Bank::open(&ticket, plan.clone());
            let near = harness::run(design, &ticket, &mut bank, &mut VirtualTime, seed);
            let run = server.open(&ticket, plan.clone());
            let mut client = Client::new(&run.url()).unwrap();
            let far = harness::run(design, &ticket, &mut client, &mut VirtualTime, seed);
            assert_eq!(far, near, "{design} under seed {seed}");
            let log = run.with_bank(|bank| bank.fault_log().to_string());
            assert_eq!(log, bank.fault_log().to_string(), "{design} under seed {seed}");
            let grade = run.with_bank(|bank| bank.grade(&far.report).to_json());
            assert_eq!(grade, bank.grade(&near.report).to_json(), "{design} under seed {seed}");
        }
    }
}
