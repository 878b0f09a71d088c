//! What an object file of the build was: machine code, a compiler's intermediate code for link-time
//! optimisation, or both.

use std::path::Path;

use object::{Object as _, ObjectSection as _};

/// LLVM's bitcode, bare and in its wrapper (LLVM, "Bitcode File Format").
const BITCODE: [&[u8]; 2] = [b"BC\xc0\xde", b"\xde\xc0\x17\x0b"];

/// One object file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Whether it has intermediate code.
    pub intermediate: bool,
    /// Bytes of machine code.
    pub text_bytes: u64,
}

impl Object {
    /// Whether only the linker's optimiser can have made code of it.
    pub fn is_only_intermediate(self) -> bool {
        self.intermediate && self.text_bytes == 0
    }
}

/// Reads an object file; `None` when it is not there any more or is nothing known.
pub fn read(path: &Path) -> Option<Object> {
    parse(&std::fs::read(path).ok()?)
}

/// Reads the bytes of an object file.
pub fn parse(data: &[u8]) -> Option<Object> {
    if BITCODE.iter().any(|magic| data.starts_with(magic)) {
        return Some(Object { intermediate: true, text_bytes: 0 });
    }
    let file = object::File::parse(data).ok()?;
    let mut found = Object::default();
    for section in file.sections() {
        let name = section.name().unwrap_or_default();
        // `.llvm.lto` is clang's since 17 (`-ffat-lto-objects`).
        found.intermediate |= name.starts_with(".gnu.lto_") || name == ".llvm.lto";
        if section.kind() == object::SectionKind::Text {
            found.text_bytes += section.size();
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Proc;

    #[test]
    fn formats_of_real_compilers() {
        let dir = tempfile::tempdir().expect("a directory");
        let object = |compiler: &str, flags: &[&str]| {
            Proc::new(compiler)
                .args(["-O2", "-c", "-x", "c", "-", "-o", "a.o"])
                .args(flags)
                .stdin("int f(int x) { return x * 3; }")
                .cwd(dir.path())
                .run()
                .expect("it compiles");
            read(&dir.path().join("a.o")).expect("an object")
        };
        let plain = object("/usr/bin/gcc", &[]);
        assert!(!plain.intermediate && plain.text_bytes > 0);
        assert!(object("/usr/bin/gcc", &["-flto"]).is_only_intermediate());
        let fat = object("/usr/bin/gcc", &["-flto", "-ffat-lto-objects"]);
        assert!(fat.intermediate && !fat.is_only_intermediate());
        assert!(object("/usr/bin/clang", &["-flto=thin"]).is_only_intermediate());
        assert_eq!(parse(b"text"), None);
        assert_eq!(read(Path::new("/nowhere")), None);
    }
}
