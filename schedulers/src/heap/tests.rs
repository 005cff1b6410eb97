use super::*;
use alloc::collections::BTreeMap;
use proptest::prelude::*;

proptest! {
    #[test]
    fn the_heap_behaves_like_a_sorted_map(steps in prop::collection::vec((0u8..5, 0u32..40, 0u64..50), 0..400)) {
        let mut heap = FifoHeap::default();
        let mut model: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for client in 0..40 {
            heap.reserve(client).unwrap();
        }
        for (sequence, (action, client, key)) in (0u64..).zip(steps) {
            match action {
                0 | 1 if !model.contains_key(&client) => {
                    heap.insert(client, key);
                    model.insert(client, (key, sequence));
                }
                2 => {
                    heap.remove(client);
                    model.remove(&client);
                }
                3 => {
                    heap.change(client, key);
                    model.entry(client).and_modify(|held| held.0 = key);
                }
                _ => {
                    let expected = model.iter().map(|(&client, &order)| (order, client)).min();
                    prop_assert_eq!(heap.take_least(), expected.map(|(_, client)| client));
                    model.retain(|&client, _| Some(client) != expected.map(|(_, client)| client));
                }
            }
            prop_assert_eq!(heap.heap.len(), model.len());
            prop_assert_eq!(heap.key(client), model.get(&client).map(|held| held.0));
            let least = model.values().min();
            prop_assert_eq!(heap.least(), least.map(|&(key, _)| key));
        }
        heap.heap.change_all(|client, _| u128::from(client / 3) << 64);
        let mut before = 0;
        while let Some(key) = heap.least() {
            prop_assert!(before <= key);
            prop_assert_eq!(heap.take_least_up_to(key.saturating_sub(1)).is_some(), key == 0);
            let Some(client) = heap.take_least_up_to(key) else { continue };
            prop_assert_eq!(key, u64::from(client / 3));
            model.remove(&client);
            before = key;
        }
        model.retain(|&client, _| client / 3 != 0);
        prop_assert!(model.is_empty());
    }
}

#[test]
fn a_client_without_room_is_ignored() {
    let mut heap = Heap::default();
    heap.reserve(2).unwrap();
    heap.insert(3, 1u64);
    assert_eq!(heap.take_least(), None);
    heap.insert(2, 1);
    heap.insert(2, 7);
    assert_eq!(heap.least(), Some(7));
    assert_eq!(heap.take_least_if(|key| key < 7), None);
    assert_eq!(heap.take_least(), Some((7, 2)));
}
