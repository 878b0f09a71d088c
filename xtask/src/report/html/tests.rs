//! Pages of comparisons with known numbers, read back strictly.

use super::*;
use crate::compare::{Options, compare};
use crate::record::testing::{failed, record};

fn page(comparison: &Comparison) -> String {
    let mut out = Vec::new();
    write(comparison, &[], &mut out).expect("written");
    String::from_utf8(out).expect("text")
}

/// Five blocks: `t` is 10% slower, `<u>` failed, `v` was measured once, `w` is as noisy as can be.
fn comparison() -> Comparison {
    let mut records = Vec::new();
    for block in 1..=5 {
        let noise = 1.0 + 0.001 * f64::from(block);
        records.push(record("base", "scan", block, 1000.0));
        records.push(record("t", "scan", block, 900.0 * noise));
        records.push(failed("<u>", "scan", block, "died of <b>\u{1}\"'&"));
        let far = if block % 2 == 0 { 2.0 } else { 0.5 };
        records.push(record("w", "scan", block, 1000.0 * far));
    }
    records.push(record("v", "scan", 1, 2000.0));
    compare(&records, "base", Options::default()).expect("comparable")
}

#[test]
fn a_page_is_well_formed_and_loads_nothing() {
    let text = page(&comparison());
    let body = text.strip_prefix("<!DOCTYPE html>\n").expect("a document type");
    let document = roxmltree::Document::parse(body).expect("well-formed");
    let nodes = || document.descendants().filter(|node| node.is_element());
    assert!(
        nodes().all(|node| !["script", "link", "img", "u", "b"].contains(&node.tag_name().name()))
    );
    let loads = |node: &roxmltree::Node<'_, '_>| {
        node.attributes()
            .any(|it| ["src", "style"].contains(&it.name()) || it.name().starts_with("on"))
    };
    assert!(!nodes().any(|node| loads(&node)));
    let ids: Vec<&str> = nodes().filter_map(|node| node.attribute("id")).collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    // Every drawing is named by what is there.
    let named = nodes().filter_map(|node| node.attribute("aria-labelledby"));
    assert!(named.flat_map(str::split_whitespace).all(|id| ids.contains(&id)));
}

#[test]
fn only_what_is_shown_is_claimed_and_coloured() {
    let comparison = comparison();
    let host = &comparison.hosts[0];
    let index = |name: &str| host.targets.iter().position(|it| it == name).expect("a target");
    let claimed = claim(host, index("t"));
    assert!(claimed.contains("slower, -9.7% [-9.9"), "{claimed}");
    let nothing = "1 group in which nothing may be claimed (undecided, or one pair only).";
    assert_eq!(claim(host, index("v")), nothing);
    assert_eq!(claim(host, index("w")), nothing);
    assert_eq!(claim(host, index("<u>")), "1 group without a result.");
    let class = |name: &str| heat::class(&host.rows[0].cells[index(name)].result);
    assert_eq!(["t", "v", "w", "<u>"].map(class), ["d3", "unsure", "unsure", "bad"]);
}
