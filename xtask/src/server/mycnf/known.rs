//! What became of server variables, as data: removed, renamed, ignored, or not there yet.
//!
//! Not a list of all: of those that configs for benchmarks have. One that is not here and that the
//! server does not know makes the server fail with words of its own. Sources: the manuals' pages on
//! added, deprecated and removed variables of MySQL 5.7 to 9.x; MariaDB's pages of each variable,
//! tried on 10.11.

use crate::exit::{Code, coded};
use crate::matrix::model::Engine;
use crate::matrix::version::Version;

/// What became of a variable in one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The server refuses to start from this version on.
    Removed(&'static str),
    /// The server takes it from this version on and does nothing.
    Ignored(&'static str),
    /// It still works from this version on, but has a successor.
    Old(&'static str),
    /// It is not there before this version.
    New(&'static str),
    /// It is there in no version.
    Absent,
}

use Engine::{Mariadb, Mysql};
use Fate::{Absent, Ignored, New, Old, Removed};

type Row = (&'static str, Engine, Fate, &'static str);

const GONE: &str = "leave it out";
const NO_CACHE: &str = "there is no query cache any more: leave it out";
const FORMATS: &str = "all tables can have any row format: leave it out";
const REDO: &str = "the successor is `innodb_redo_log_capacity`, the size of all files together";
const BY_SIZE: &str =
    "`innodb_log_file_size` times `innodb_log_files_in_group` is the same before that";
const ONE_LOG: &str = "there is one file, of `innodb_log_file_size`";
const ONE_POOL: &str = "there is one buffer pool: leave it out";
const IN_FILES: &str = "in files its name is `transaction_isolation`";

/// Name, engine, fate, what to do.
const ROWS: &[Row] = &[
    ("query_cache_limit", Mysql, Removed("8.0.3"), NO_CACHE),
    ("query_cache_min_res_unit", Mysql, Removed("8.0.3"), NO_CACHE),
    ("query_cache_size", Mysql, Removed("8.0.3"), NO_CACHE),
    ("query_cache_type", Mysql, Removed("8.0.3"), NO_CACHE),
    ("query_cache_wlock_invalidate", Mysql, Removed("8.0.3"), NO_CACHE),
    ("innodb_file_format", Mysql, Removed("8.0.0"), FORMATS),
    ("innodb_file_format_check", Mysql, Removed("8.0.0"), FORMATS),
    ("innodb_file_format_max", Mysql, Removed("8.0.0"), FORMATS),
    ("innodb_large_prefix", Mysql, Removed("8.0.0"), FORMATS),
    ("innodb_file_format", Mariadb, Ignored("10.6.0"), FORMATS),
    ("innodb_large_prefix", Mariadb, Ignored("10.6.0"), FORMATS),
    ("innodb_checksums", Mysql, Removed("8.0.0"), "use `innodb_checksum_algorithm`"),
    ("innodb_checksums", Mariadb, Removed("10.6.0"), "use `innodb_checksum_algorithm`"),
    ("innodb_support_xa", Mysql, Removed("8.0.0"), GONE),
    ("innodb_support_xa", Mariadb, Removed("10.6.0"), GONE),
    ("innodb_locks_unsafe_for_binlog", Mysql, Removed("8.0.0"), "use `transaction_isolation`"),
    ("innodb_locks_unsafe_for_binlog", Mariadb, Ignored("10.6.0"), "use `transaction_isolation`"),
    (
        "innodb_stats_sample_pages",
        Mysql,
        Removed("8.0.0"),
        "use `innodb_stats_transient_sample_pages`",
    ),
    (
        "innodb_stats_sample_pages",
        Mariadb,
        Ignored("10.6.0"),
        "use `innodb_stats_transient_sample_pages`",
    ),
    ("innodb_undo_logs", Mysql, Removed("8.0.2"), "use `innodb_rollback_segments`"),
    ("innodb_undo_logs", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_rollback_segments", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_log_file_size", Mysql, Old("8.0.30"), REDO),
    ("innodb_log_files_in_group", Mysql, Old("8.0.30"), REDO),
    ("innodb_log_files_in_group", Mariadb, Ignored("10.6.0"), ONE_LOG),
    ("innodb_redo_log_capacity", Mysql, New("8.0.30"), BY_SIZE),
    ("innodb_redo_log_capacity", Mariadb, Absent, "use `innodb_log_file_size`"),
    ("innodb_buffer_pool_instances", Mariadb, Ignored("10.6.0"), ONE_POOL),
    ("innodb_page_cleaners", Mysql, New("5.7.4"), GONE),
    ("innodb_page_cleaners", Mariadb, Ignored("10.6.0"), "there is one page cleaner: leave it out"),
    ("innodb_concurrency_tickets", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_thread_concurrency", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_commit_concurrency", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_replication_delay", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_thread_sleep_delay", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_adaptive_max_sleep_delay", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_idle_flush_pct", Mysql, New("8.0.18"), GONE),
    ("innodb_idle_flush_pct", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_log_checksums", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_log_compressed_pages", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_lock_schedule_algorithm", Mariadb, Ignored("10.6.0"), GONE),
    ("innodb_change_buffering", Mariadb, Removed("11.0.1"), "there is no change buffer any more"),
    (
        "innodb_change_buffer_max_size",
        Mariadb,
        Removed("11.0.1"),
        "there is no change buffer any more",
    ),
    ("innodb_dedicated_server", Mysql, New("8.0.3"), "give the sizes themselves"),
    ("innodb_dedicated_server", Mariadb, Absent, "give the sizes themselves"),
    ("innodb_doublewrite_pages", Mysql, New("8.0.20"), GONE),
    ("innodb_doublewrite_pages", Mariadb, Absent, GONE),
    ("innodb_log_writer_threads", Mysql, New("8.0.22"), GONE),
    ("innodb_log_writer_threads", Mariadb, Absent, GONE),
    ("innodb_use_fdatasync", Mysql, New("8.0.26"), GONE),
    ("innodb_use_fdatasync", Mariadb, Absent, GONE),
    ("innodb_log_write_ahead_size", Mysql, New("5.7.4"), GONE),
    (
        "innodb_adaptive_hash_index_partitions",
        Mysql,
        Absent,
        "its name is `innodb_adaptive_hash_index_parts`",
    ),
    (
        "innodb_adaptive_hash_index_partitions",
        Mariadb,
        Removed("10.5.0"),
        "its name is `innodb_adaptive_hash_index_parts`",
    ),
    ("tx_isolation", Mysql, Absent, IN_FILES),
    ("tx_isolation", Mariadb, Absent, IN_FILES),
    ("expire_logs_days", Mysql, Removed("8.4.0"), "use `binlog_expire_logs_seconds`"),
    ("binlog_expire_logs_seconds", Mysql, New("8.0.1"), "use `expire_logs_days`"),
    ("binlog_expire_logs_seconds", Mariadb, New("10.6.1"), "use `expire_logs_days`"),
    ("default_authentication_plugin", Mysql, Removed("8.4.0"), "use `authentication_policy`"),
    ("authentication_policy", Mysql, New("8.0.27"), "use `default_authentication_plugin`"),
    ("mysql_native_password", Mysql, Removed("9.0.0"), "the plug-in is gone: leave it out"),
    ("ssl", Mysql, Removed("8.4.0"), "on a socket there is none: leave it out"),
    ("skip_ssl", Mysql, Removed("8.4.0"), "on a socket there is none: leave it out"),
    ("log_warnings", Mysql, Removed("8.0.3"), "use `log_error_verbosity`"),
    ("log_error_verbosity", Mysql, New("5.7.2"), "use `log_warnings`"),
    ("log_error_verbosity", Mariadb, Absent, "use `log_warnings`"),
    (
        "internal_tmp_disk_storage_engine",
        Mysql,
        Removed("8.0.16"),
        "it is always InnoDB: leave it out",
    ),
    ("internal_tmp_disk_storage_engine", Mariadb, Absent, GONE),
    ("secure_auth", Mysql, Removed("8.0.3"), GONE),
    ("old_passwords", Mysql, Removed("8.0.11"), GONE),
    ("sync_frm", Mysql, Removed("8.0.0"), GONE),
    ("skip_host_cache", Mysql, Removed("8.3.0"), "use `host_cache_size = 0`"),
    ("master_info_repository", Mysql, Removed("8.3.0"), GONE),
    ("relay_log_info_repository", Mysql, Removed("8.3.0"), GONE),
    ("transaction_write_set_extraction", Mysql, Removed("8.3.0"), GONE),
    ("binlog_transaction_dependency_tracking", Mysql, Removed("8.4.0"), GONE),
];

/// Looks the lines of a config up; gives what is worth a warning. A name that begins with `loose_`
/// is not looked at: so the server itself is told to take no offence.
///
/// # Errors
/// With [`Code::Input`] for everything at once that the server would refuse.
pub fn check(
    engine: Engine,
    version: &Version,
    lines: &[(String, String)],
) -> anyhow::Result<Vec<String>> {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    for (name, _) in lines {
        for (_, _, fate, advice) in ROWS.iter().filter(|row| row.0 == name && row.1 == engine) {
            let engine = engine.name();
            let reached = |limit: &str| limit.parse::<Version>().is_ok_and(|it| *version >= it);
            let what = match fate {
                Removed(from) if reached(from) => format!("was removed in {engine} {from}"),
                Ignored(from) if reached(from) => format!("does nothing since {engine} {from}"),
                Old(from) if reached(from) => format!("is old since {engine} {from}"),
                New(from) if !reached(from) => format!("came with {engine} {from}"),
                Absent => format!("is no variable of {engine}"),
                _ => continue,
            };
            let text = format!("`{name}` {what} (the server is {version}); {advice}");
            match fate {
                Ignored(_) | Old(_) => warnings.push(text),
                Removed(_) | New(_) | Absent => errors.push(text),
            }
        }
    }
    if errors.is_empty() {
        return Ok(warnings);
    }
    let help = "`loose_` before the name lets servers pass over it that do not have it";
    Err(coded(
        Code::Input,
        format!("the server would not start: {}\n  {help}", errors.join("\n  ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(engine: Engine, version: &str, name: &str) -> Result<Vec<String>, String> {
        let version = version.parse().expect("a version");
        check(engine, &version, &[(name.to_owned(), "1".to_owned())]).map_err(|error| {
            assert_eq!(crate::exit::code_of(&error), Code::Input);
            error.to_string()
        })
    }

    #[test]
    fn removed_variables_are_refused_with_their_successor() {
        assert_eq!(said(Mysql, "5.7.44", "query_cache_size"), Ok(Vec::new()));
        let text = said(Mysql, "8.0.39", "query_cache_size").expect_err("removed");
        assert!(
            text.contains("`query_cache_size` was removed in mysql 8.0.3 (the server is 8.0.39)")
        );
        assert!(text.contains("`loose_`"), "{text}");
        assert_eq!(said(Mysql, "8.0.39", "loose_query_cache_size"), Ok(Vec::new()));
        assert_eq!(said(Mariadb, "11.8.2", "query_cache_size"), Ok(Vec::new()), "still there");
        let text = said(Mysql, "8.4.0", "expire_logs_days").expect_err("removed");
        assert!(text.contains("use `binlog_expire_logs_seconds`"), "{text}");
        for engine in [Mysql, Mariadb] {
            let text = said(engine, "10.5.1", "tx_isolation").expect_err("never there");
            assert!(text.contains("`transaction_isolation`"), "{text}");
        }
    }

    #[test]
    fn sizes_of_the_redo_log_follow_the_version() {
        assert_eq!(said(Mysql, "8.0.29", "innodb_log_file_size"), Ok(Vec::new()));
        let warnings = said(Mysql, "8.0.30", "innodb_log_file_size").expect("it works");
        assert!(warnings[0].contains("innodb_redo_log_capacity"), "{warnings:?}");
        let text = said(Mysql, "8.0.29", "innodb_redo_log_capacity").expect_err("not yet");
        assert!(text.contains("came with mysql 8.0.30"), "{text}");
        assert_eq!(said(Mysql, "9.4.0", "innodb_redo_log_capacity"), Ok(Vec::new()));
        assert_eq!(said(Mariadb, "10.11.6", "innodb_log_file_size"), Ok(Vec::new()));
    }

    #[test]
    fn what_a_server_ignores_is_a_warning() {
        let warnings = said(Mariadb, "10.11.6", "innodb_buffer_pool_instances").expect("taken");
        assert!(warnings[0].contains("does nothing since mariadb 10.6.0"), "{warnings:?}");
        assert_eq!(said(Mariadb, "10.5.28", "innodb_buffer_pool_instances"), Ok(Vec::new()));
        assert_eq!(said(Mysql, "8.0.39", "innodb_buffer_pool_instances"), Ok(Vec::new()));
    }

    #[test]
    fn everything_is_told_at_once() {
        let lines = ["ssl", "query_cache_type", "innodb_doublewrite"]
            .map(|name| (name.to_owned(), "0".to_owned()));
        let error = check(Mysql, &"9.0.0".parse().expect("a version"), &lines).expect_err("two");
        let text = error.to_string();
        assert!(text.contains("`ssl`") && text.contains("`query_cache_type`"), "{text}");
        assert!(!text.contains("innodb_doublewrite"), "{text}");
    }

    #[test]
    fn the_table_is_sound() {
        for (index, (name, engine, fate, _)) in ROWS.iter().enumerate() {
            assert!(
                !ROWS[..index].iter().any(|row| row.0 == *name && row.1 == *engine),
                "{name} stands twice for {}",
                engine.name()
            );
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            let (Removed(from) | Ignored(from) | Old(from) | New(from)) = fate else { continue };
            assert!(from.parse::<Version>().is_ok(), "{name}: {from}");
        }
    }
}
