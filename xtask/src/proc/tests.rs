//! The door, tried with real programs.

use super::*;

#[test]
fn environment_is_cleared_and_stdin_is_given() {
    let text = Proc::new("/usr/bin/env").env("A", "1 2").read().expect("env runs");
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["A=1 2", "LC_ALL=C", &format!("PATH={PATH}"), "TZ=UTC"]);
    assert_eq!(Proc::new("/bin/cat").stdin("hello").read().expect("cat runs"), "hello");
}

#[test]
fn failure_names_the_command_and_shows_the_tail() {
    let error = Proc::new("/bin/sh")
        .args(["-c", "echo one; echo two >&2; exit 3"])
        .run()
        .expect_err("it fails");
    let text = format!("{error:#}");
    assert!(text.starts_with("`/bin/sh -c 'echo one; echo two >&2; exit 3'` failed"), "{text}");
    assert!(text.contains("| one") && text.contains("| two"), "{text}");
}

#[test]
fn words_are_quoted_only_where_needed() {
    let word = shell_word;
    assert_eq!(word("-march=x86-64-v3"), "-march=x86-64-v3");
    assert_eq!(word("--param l1-cache-size=32"), "'--param l1-cache-size=32'");
    assert_eq!([word(""), word("$ORIGIN"), word("it's")], ["''", "'$ORIGIN'", "\"it's\""]);
}

#[test]
fn missing_program_is_an_environment_error() {
    let error = Proc::new("/no/such/program").run().expect_err("it is missing");
    assert_eq!(crate::exit::code_of(&error), Code::Environment);
}

#[test]
fn time_limit_stops_the_whole_group() {
    let begin = Instant::now();
    let error = Proc::new("/bin/sh")
        .args(["-c", "sleep 60 & sleep 60"])
        .timeout(Duration::from_millis(100))
        .run()
        .expect_err("it takes too long");
    assert!(format!("{error:#}").contains("took longer than"), "{error:#}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_program_left_in_the_background_holds_nobody_up() {
    let begin = Instant::now();
    let text = Proc::new("/bin/sh").args(["-c", "sleep 60 & echo done"]).read();
    assert_eq!(text.expect("it ran"), "done");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn log_starts_with_the_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("step.log");
    Proc::new("/bin/echo").arg("it works").log(&log).run().expect("echo runs");
    let text = std::fs::read_to_string(log).expect("a log");
    assert!(text.ends_with("$ /bin/echo 'it works'\nit works\n"), "{text}");
}
