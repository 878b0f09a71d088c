//! The server's configuration file. Pure.

use std::path::Path;

use crate::exit::{Code, coded};

/// The whole `postgresql.conf`: only what the config says, then what makes the server private.
///
/// `initdb`'s own file is replaced, because some of its values are guessed from the machine; what a
/// config does not name has the server's built-in default. Where a name stands twice the server
/// takes the last, so the lines at the end hold whatever the config says.
///
/// # Errors
/// With [`Code::Input`] for a name or a value that cannot stand in such a file.
pub fn postgresql_conf(
    lines: &[(String, String)],
    socket_folder: &Path,
    port: u16,
) -> anyhow::Result<String> {
    let mut text = String::from("# Written by `cargo xtask`; the config of matrix.toml.\n");
    for (name, value) in lines {
        text.push_str(&line(name, value)?);
    }
    text.push_str("# Private: only this socket.\n");
    text.push_str(&line("listen_addresses", "")?);
    text.push_str(&line("unix_socket_directories", &socket_folder.to_string_lossy())?);
    text.push_str(&line("port", &port.to_string())?);
    Ok(text)
}

/// `name = 'value'`, quoted by the rules of PostgreSQL's documentation, section 20.1.2: a quote is
/// doubled; a backslash starts an escape, so it is doubled as well.
fn line(name: &str, value: &str) -> anyhow::Result<String> {
    let mut letters = name.chars();
    let good = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    if !good {
        return Err(coded(Code::Input, format!("`{name}` is no name of a server variable")));
    }
    if value.contains(['\n', '\r', '\0']) {
        return Err(coded(
            Code::Input,
            format!("the value of `{name}` has a line break, which a server's file cannot hold"),
        ));
    }
    Ok(format!("{name} = '{}'\n", value.replace('\\', "\\\\").replace('\'', "''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(lines: &[(&str, &str)]) -> anyhow::Result<String> {
        let lines: Vec<_> =
            lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        postgresql_conf(&lines, Path::new("/mnt/socket"), 5432)
    }

    #[test]
    fn config_comes_first_and_privacy_last() {
        let text = conf(&[
            ("shared_buffers", "64MB"),
            ("listen_addresses", "*"),
            ("auto_explain.log_format", r"it's \x"),
        ])
        .expect("good lines");
        assert_eq!(
            text,
            "# Written by `cargo xtask`; the config of matrix.toml.\n\
             shared_buffers = '64MB'\n\
             listen_addresses = '*'\n\
             auto_explain.log_format = 'it''s \\\\x'\n\
             # Private: only this socket.\n\
             listen_addresses = ''\n\
             unix_socket_directories = '/mnt/socket'\n\
             port = '5432'\n"
        );
    }

    #[test]
    fn wrong_names_and_values_are_refused() {
        for (name, value) in
            [("", "1"), ("1a", "1"), ("a b", "1"), ("a", "1\nb = 2"), ("a'", "1"), ("é", "1")]
        {
            let error = conf(&[(name, value)]).expect_err("refused");
            assert_eq!(crate::exit::code_of(&error), Code::Input, "{name}={value}");
        }
    }
}
