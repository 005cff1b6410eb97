//! The guide shows code that is compiled and tested.

const GUIDE: &str = include_str!("../../../docs/guide/first-resource.md");
const CODE: [&str; 4] = [
    include_str!("../src/protocol.rs"),
    include_str!("../src/state.rs"),
    include_str!("../src/handler.rs"),
    include_str!("grid.rs"),
];

#[test]
fn every_code_block_of_the_guide_is_part_of_the_template_or_of_its_test() {
    let blocks: Vec<_> = GUIDE.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 6);
    for block in &blocks {
        assert!(CODE.iter().any(|file| file.contains(block)), "in no file of the template:\n{block}");
    }
    for file in CODE {
        assert!(blocks.iter().any(|block| file.contains(block)), "the guide shows nothing of:\n{file}");
    }
}
