//! The server's configuration file in the MySQL family. Pure.

mod known;

pub use known::check;

use crate::exit::{Code, coded};

/// Variables that change the files of a data directory, or what a table that names nothing else is
/// made as. Data are made and loaded with those that a config has.
const LAYOUT: [&str; 20] = [
    "character_set_server",
    "collation_server",
    "default_storage_engine",
    "default_table_encryption",
    "innodb_checksum_algorithm",
    "innodb_data_file_path",
    "innodb_default_row_format",
    "innodb_file_format",
    "innodb_file_per_table",
    "innodb_page_size",
    "innodb_undo_tablespaces",
    "lower_case_table_names",
    "plugin_load",
    "plugin_load_add",
    "rocksdb",
    "rocksdb_block_size",
    "rocksdb_default_cf_options",
    "rocksdb_merge_operator",
    "rocksdb_override_cf_options",
    "skip_innodb",
];

/// The whole `my.cnf`: only what the config says, then what makes the server private. Where a name
/// stands twice the server takes the last, so the lines at the end hold whatever the config says.
///
/// # Errors
/// With [`Code::Input`] for a name or a value that cannot stand in such a file.
pub fn text(
    lines: &[(String, String)],
    private: &[(&'static str, String)],
) -> anyhow::Result<String> {
    let mut text =
        String::from("# Written by `cargo xtask`; the config of matrix.toml.\n[mysqld]\n");
    for (name, value) in lines {
        text.push_str(&line(name, value)?);
    }
    text.push_str("# Private: only this socket, only these folders.\n");
    for (name, value) in private {
        text.push_str(&line(name, value)?);
    }
    Ok(text)
}

/// `name = value`. Values that are more than a word stand in quotes, where `\` is an escape and `#`
/// begins no comment (MySQL 8.0 Reference Manual, section 6.2.2.2, "Using Option Files").
fn line(name: &str, value: &str) -> anyhow::Result<String> {
    let mut letters = name.chars();
    let good = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if !good {
        return Err(coded(Code::Input, format!("`{name}` is no name of a server variable")));
    }
    if value.contains(['\n', '\r', '\0']) {
        return Err(coded(
            Code::Input,
            format!("the value of `{name}` has a line break, which a server's file cannot hold"),
        ));
    }
    let word = |c: char| c.is_ascii_alphanumeric() || "_-.,:;/+@%=*".contains(c);
    if !value.is_empty() && value.chars().all(word) {
        return Ok(format!("{name} = {value}\n"));
    }
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
    Ok(format!("{name} = \"{escaped}\"\n"))
}

/// The lines of a config with which data must be made and loaded, sorted by name.
pub fn layout(lines: &[(String, String)]) -> Vec<(String, String)> {
    let plain = |name: &str| name.strip_prefix("loose_").unwrap_or(name).to_owned();
    let is_layout = |(name, _): &&(String, String)| LAYOUT.contains(&plain(name).as_str());
    let mut found: Vec<_> = lines.iter().filter(is_layout).cloned().collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(lines: &[(&str, &str)]) -> Vec<(String, String)> {
        lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn config_comes_first_and_privacy_last() {
        let lines = pairs(&[
            ("innodb_buffer_pool_size", "134217728"),
            ("innodb_data_file_path", "ibdata1:512M:autoextend"),
            ("sql_mode", ""),
            ("init_connect", r#"SET @a = "\x" # no comment"#),
            ("skip_networking", "0"),
        ]);
        let private = [("skip_networking", "1".to_owned()), ("datadir", "/my data".to_owned())];
        assert_eq!(
            text(&lines, &private).expect("good lines"),
            "# Written by `cargo xtask`; the config of matrix.toml.\n\
             [mysqld]\n\
             innodb_buffer_pool_size = 134217728\n\
             innodb_data_file_path = ibdata1:512M:autoextend\n\
             sql_mode = \"\"\n\
             init_connect = \"SET @a = \\\"\\\\x\\\" # no comment\"\n\
             skip_networking = 0\n\
             # Private: only this socket, only these folders.\n\
             skip_networking = 1\n\
             datadir = \"/my data\"\n"
        );
    }

    #[test]
    fn wrong_names_and_values_are_refused() {
        for (name, value) in
            [("", "1"), ("1a", "1"), ("a b", "1"), ("a", "1\n[mysqld]"), ("[x]", "1"), ("a=", "1")]
        {
            let error = text(&pairs(&[(name, value)]), &[]).expect_err("refused");
            assert_eq!(crate::exit::code_of(&error), Code::Input, "{name}={value}");
        }
    }

    #[test]
    fn what_changes_the_files_is_known() {
        let lines = pairs(&[
            ("innodb_page_size", "8k"),
            ("innodb_buffer_pool_size", "1G"),
            ("loose_rocksdb_block_size", "8192"),
            ("character_set_server", "latin1"),
        ]);
        let names: Vec<String> = layout(&lines).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["character_set_server", "innodb_page_size", "loose_rocksdb_block_size"]);
        assert!(LAYOUT.is_sorted());
    }
}
