//! Makes the ticket of a seed.

use rand_pcg::Pcg64;

use super::{Order, OrderId, Ticket, describe, read::hashed_name};
use crate::{
    money::{Amount, Currency},
    seed::{Seed, below, mix},
};

const ORDERS: usize = 8;
/// The stream that tickets are drawn from, apart from that of the faults.
const STREAM: u128 = 0x7469_636b_6574_7331_0000_0000_0000_0001;

impl Ticket {
    /// Eight orders in EUR, ids `A-` and four digits, all different, of 5.00 to 199.99 each.
    ///
    /// # Panics
    ///
    /// Never: what is drawn is within bounds.
    ///
    /// # Determinism
    ///
    /// The ticket follows from the seed alone. Its id is a one-way hash of it.
    pub fn generate(seed: impl Into<Seed>) -> Self {
        let seed = seed.into();
        let mut rng = Pcg64::new(u128::from(mix(seed.number())), STREAM);
        let currency = Currency::EUR;
        let mut orders: Vec<Order> = Vec::with_capacity(ORDERS);
        while orders.len() < ORDERS {
            let id = format!("A-{}", 1000 + below(&mut rng, 9000));
            let id = OrderId::new(&id).expect("a letter, a dash and four digits are an id");
            if orders.iter().any(|order| order.id == id) {
                continue;
            }
            let amount = Amount::from_minor(500 + below(&mut rng, 19_500))
                .expect("500 and more is above zero");
            orders.push(Order { id, amount, currency, expect: vec![amount], refunded: Vec::new() });
        }
        let text = describe(&orders);
        Self::new(hashed_name(&seed.number().to_le_bytes()), currency, text, orders)
    }
}
