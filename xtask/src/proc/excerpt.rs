//! What of a program's output goes into an error message: the last lines, and before them the lines
//! that name the cause. With several jobs the compiler that failed may have spoken long before make
//! gives up, and the last lines are those of its luckier neighbours.

/// How many last lines.
const TAIL: usize = 12;
/// How many lines of the cause, when they stand before the last ones.
const CAUSES: usize = 6;

/// What compilers, linkers, CMake and configure put where they say why.
const MARKS: [&str; 6] = [
    ": error:",
    ": fatal error:",
    "CMake Error",
    "undefined reference to",
    "configure: error:",
    "internal compiler error",
];

/// The lines to show, in the order of the output; `…` where lines are left out between.
pub fn excerpt(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let (before, tail) = lines.split_at(lines.len().saturating_sub(TAIL));
    let is_cause = |line: &&&str| MARKS.iter().any(|mark| line.contains(mark));
    let mut shown: Vec<&str> = before.iter().filter(is_cause).take(CAUSES).copied().collect();
    if !shown.is_empty() {
        shown.push("…");
    }
    shown.extend(tail);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_comes_before_the_last_lines() {
        let mut text = "a.c:1:2: error: no such thing\nlong: error: b\n".to_owned();
        for number in 0..40 {
            text.push_str(&format!("[ 27%] Building x{number}.o\n\n"));
        }
        text.push_str("make: *** [Makefile:156: all] Error 2\n");
        let shown = excerpt(&text);
        assert_eq!(shown[..3], ["a.c:1:2: error: no such thing", "long: error: b", "…"]);
        assert_eq!(shown.len(), 3 + TAIL);
        assert!(shown.last().is_some_and(|line| line.starts_with("make: ***")));
    }

    #[test]
    fn nothing_is_shown_twice_and_short_output_is_shown_whole() {
        let text = "one\na.c:1: error: x\n\nthree\n";
        assert_eq!(excerpt(text), ["one", "a.c:1: error: x", "three"]);
        assert!(excerpt("").is_empty());
        // Names of files and switches with the word are no causes.
        let mut noise = "Building strerror.o -Werror\n".repeat(20);
        noise.push_str("end\n");
        assert_eq!(excerpt(&noise).len(), TAIL);
    }
}
