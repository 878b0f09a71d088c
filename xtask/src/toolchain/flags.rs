//! Which options a compiler really takes, asked of the compiler itself, and `native` replaced by
//! what it stands for, proven to give the same code.

use std::path::Path;

use anyhow::Context as _;
use fs_err as fs;

use crate::facts::Toolchain;
use crate::matrix::model::{Family, Options};
use crate::proc::Output;
use crate::toolchain::cpu::Cpu;
use crate::toolchain::place::Place;
use crate::toolchain::probe::PATIENCE;
use crate::toolchain::{cache, elf, native};

/// What options are tried on: as little as links.
const PROGRAM: &str = "int main(void) { return 0; }\n";

/// Loops, bits, strings and fused arithmetic: code that looks different for another processor.
const HOT: &str = r#"
typedef unsigned long ulong;
double dot(const double *a, const double *b, long n) {
    double sum = 0; for (long i = 0; i < n; i++) sum += a[i] * b[i]; return sum; }
void axpy(float *y, const float *x, float a, long n) {
    for (long i = 0; i < n; i++) y[i] = a * x[i] + y[i]; }
long bits(const ulong *w, long n) {
    long sum = 0; for (long i = 0; i < n; i++) sum += __builtin_popcountl(w[i]); return sum; }
int lead(ulong x) { return x ? __builtin_clzl(x) + __builtin_ctzl(x) : -1; }
ulong mask(ulong x, int n) { return (x & (x - 1)) ^ (x << (n & 63)) ^ (x >> (n & 31)); }
ulong andn(ulong a, ulong b) { return ~a & b; }
unsigned swap(const unsigned *p) { return __builtin_bswap32(*p); }
long length(const char *s) { long n = 0; while (s[n]) n++; return n; }
int same(const char *a, const char *b) { return __builtin_memcmp(a, b, 48) == 0; }
void fill(char *p) { __builtin_memset(p, 0, 200); }
void copy(char *p, const char *q) { __builtin_memcpy(p, q, 240); }
int count(const unsigned char *s, long n, unsigned char c) {
    int found = 0; for (long i = 0; i < n; i++) found += s[i] == c; return found; }
void shift(unsigned *a, const unsigned *b, long n) {
    for (long i = 0; i < n; i++) a[i] = a[i] << (b[i] & 31); }
void sum3(int *restrict a, const int *b, const int *c, long n) {
    for (long i = 0; i < n; i++) a[i] = b[i] * 3 + c[i]; }
float nearest(float x) { return __builtin_floorf(x) + __builtin_rintf(x); }
void half(long *a, const int *b, long n) { for (long i = 0; i < n; i++) a[b[i]] += b[i]; }
struct wide { ulong w[12]; };
struct wide give(const struct wide *p) { struct wide q = *p; q.w[3]++; return q; }
"#;

/// The options as they will be given: each accepted by the compiler, `native` replaced.
///
/// # Errors
/// The compiler's own words when it refuses an option; why `native` cannot be replaced.
pub fn resolve(
    toolchain: &Toolchain,
    options: &Options,
    cpu: &Cpu,
    folder: &Path,
) -> Result<Options, String> {
    hidden_native(options)?;
    let lists = [&options.cflags, &options.cxxflags, &options.ldflags];
    let host = lists.iter().any(|list| native::mentions_native(list)).then(|| cpu.digest());
    let key = cache::key(&(toolchain.digest, &toolchain.tools, lists, host));
    // The key's own text is not kept: it is a SHA-256 and long enough never to be shared.
    if let Some(known) = cache::get::<Result<[Vec<String>; 3], String>>(folder, "flags", &key) {
        return known.map(|lists| with(options, lists));
    }
    match (Trial { toolchain, folder }).resolve(options) {
        Ok(answer) => {
            // A cache that cannot be written costs time, nothing else.
            let _ = cache::put(folder, "flags", &key, &answer);
            answer.map(|lists| with(options, lists))
        }
        // Not the compiler's answer (a full disk, Ctrl-C): not to be remembered.
        Err(error) => Err(format!("cannot try the options with {}: {error:#}", toolchain.name)),
    }
}

/// What this machine lacks for these options: a linker for link-time optimisation, or features of
/// the processor, without which the server would be built and then die of its first instruction.
pub fn lack(toolchain: &Toolchain, options: &Options, cpu: &Cpu) -> Option<String> {
    if wants_lto(options)
        && let Some(refusal) = &toolchain.details.lto_refusal
    {
        return Some(format!("link-time optimisation with {}: {refusal}", toolchain.name));
    }
    // Where the kernel tells no features, none can be missed.
    let known = std::env::consts::ARCH == "x86_64" && !cpu.features.is_empty();
    [&options.cflags, &options.cxxflags].into_iter().filter(|_| known).find_map(|list| {
        let missing = native::missing_on_this_cpu(&native::required_features(list), cpu);
        let first = missing.first()?;
        let needs =
            |flag: &&String| native::required_features(std::slice::from_ref(*flag)).contains(first);
        let flag = list.iter().rfind(needs).map_or("", String::as_str);
        Some(format!("this CPU lacks {}, which `{flag}` needs", missing.join(", ")))
    })
}

/// Whether these options ask for link-time optimisation, by flags or by an option of CMake.
pub fn wants_lto(options: &Options) -> bool {
    let by_flags = [&options.cflags, &options.cxxflags, &options.ldflags].iter().any(|list| {
        let last = list.iter().rfind(|flag| flag.starts_with("-flto") || *flag == "-fno-lto");
        last.is_some_and(|flag| flag != "-fno-lto")
            || list.iter().any(|flag| flag == "-fuse-ld=lld")
    });
    by_flags
        || options.cmake.iter().any(|(key, value)| {
            ["WITH_LTO", "CMAKE_INTERPROCEDURAL_OPTIMIZATION"].contains(&key.as_str())
                && !["0", "OFF", "FALSE", "NO", "N", ""].contains(&value.to_uppercase().as_str())
        })
}

fn with(options: &Options, [cflags, cxxflags, ldflags]: [Vec<String>; 3]) -> Options {
    Options { cflags, cxxflags, ldflags, ..options.clone() }
}

/// `native` inside a configure or CMake option would reach the compiler as it is.
fn hidden_native(options: &Options) -> Result<(), String> {
    let values = (options.configure.iter())
        .chain(options.cmake.iter().map(|(_, value)| value))
        .chain(options.env.iter().map(|(_, value)| value));
    for value in values {
        for word in value.split(|letter: char| letter.is_whitespace() || "'\"=,;".contains(letter))
        {
            let option = ["-march", "-mtune", "-mcpu"].contains(&word);
            if option && value.contains(&format!("{word}=native")) {
                return Err(format!(
                    "`{value}` hides `{word}=native`, which cannot be resolved there; \
                     write it as `flags = [\"{word}=native\"]`"
                ));
            }
        }
    }
    Ok(())
}

struct Trial<'a> {
    toolchain: &'a Toolchain,
    folder: &'a Path,
}

impl Trial<'_> {
    /// Outer errors are of this machine, inner ones the compiler's answer.
    fn resolve(&self, options: &Options) -> anyhow::Result<Result<[Vec<String>; 3], String>> {
        fs::create_dir_all(self.folder)?;
        let folder = tempfile::Builder::new().prefix("flags-").tempdir_in(self.folder)?;
        let given = [&options.cflags, &options.cxxflags, &options.ldflags];
        if let Some(refusal) = self.refusal(given, folder.path())? {
            return Ok(Err(refusal));
        }
        if !given.iter().any(|list| native::mentions_native(list)) {
            return Ok(Ok(given.map(Clone::clone)));
        }
        let mut resolved = Vec::new();
        for list in given {
            match self.replace(list, folder.path())? {
                Ok(list) => resolved.push(list),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        let [cflags, cxxflags, ldflags] = [0, 1, 2].map(|index: usize| resolved[index].clone());
        match self.refusal([&cflags, &cxxflags, &ldflags], folder.path())? {
            Some(refusal) => Ok(Err(format!("what `native` stands for is refused: {refusal}"))),
            None => Ok(Ok([cflags, cxxflags, ldflags])),
        }
    }

    fn tool(&self, role: &str) -> Option<&Path> {
        self.toolchain.tool(role)
    }

    fn place(&self) -> Place {
        self.toolchain.place()
    }

    fn cc(&self) -> anyhow::Result<&Path> {
        self.tool("cc").context("the toolchain has no C compiler")
    }

    /// The first objection of the compiler or the linker, in its own words.
    fn refusal(
        &self,
        [cflags, cxxflags, ldflags]: [&Vec<String>; 3],
        folder: &Path,
    ) -> anyhow::Result<Option<String>> {
        let cc = self.cc()?;
        let mut trials = vec![(cc, "c", vec![cflags], true)];
        if let Some(cxx) = self.tool("cxx")
            && !cxxflags.is_empty()
        {
            trials.push((cxx, "c++", vec![cxxflags], true));
        }
        if !ldflags.is_empty() {
            trials.push((cc, "c", vec![cflags, ldflags], false));
        }
        for (compiler, language, lists, only_compile) in trials {
            let trial = self.place().proc_in(compiler, folder);
            let mut trial = trial.arg("-Werror").args(lists.into_iter().flatten());
            if only_compile {
                trial = trial.arg("-c");
            }
            let output = trial
                .args(["-x", language, "-", "-o", "trial"])
                .stdin(PROGRAM)
                .timeout(PATIENCE)
                .run_any()?;
            if let Some(line) = objection(&output) {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// One list with `native` replaced, and the proof that the code is the same.
    fn replace(
        &self,
        given: &[String],
        folder: &Path,
    ) -> anyhow::Result<Result<Vec<String>, String>> {
        if !native::mentions_native(given) {
            return Ok(Ok(given.to_vec()));
        }
        let replaced = native::replace(given, |word| self.expand(word))?;
        let (before, after) = (native::machine_words(given), native::machine_words(&replaced));
        for level in ["-O2", "-O3"] {
            let (native, resolved) =
                (self.object(level, &before, folder)?, self.object(level, &after, folder)?);
            let (native, resolved) = match (elf::loaded(&native), elf::loaded(&resolved)) {
                (Ok(native), Ok(resolved)) => (native, resolved),
                (Err(error), _) | (_, Err(error)) => {
                    return Ok(Err(format!("cannot prove what `native` stands for: {error}")));
                }
            };
            if native != resolved {
                return Ok(Err(format!(
                    "`{}` and what it stands for, `{}`, give different code at {level}",
                    before.join(" "),
                    after.join(" ")
                )));
            }
        }
        Ok(Ok(replaced))
    }

    /// What one word with `native` means to this compiler on this machine.
    fn expand(&self, word: &str) -> anyhow::Result<Vec<String>> {
        let cc = self.cc()?;
        let tune_only = word.starts_with("-mtune=");
        let words = match self.toolchain.family {
            Family::Gcc => {
                let output = self
                    .place()
                    .proc(cc)
                    .args([word, "-E", "-v", "-x", "c", "-"])
                    .stdin("")
                    .timeout(PATIENCE)
                    .run()?;
                native::parse_gcc(&String::from_utf8_lossy(&output.stderr)).map(|mut words| {
                    if tune_only {
                        words.retain(|w| w.starts_with("-mtune=") || w.starts_with("--param="));
                    }
                    words
                })
            }
            Family::Clang => {
                let output = self
                    .place()
                    .proc(cc)
                    .args([word, "-###", "-c", "-x", "c", "/dev/null", "-o", "x"])
                    .timeout(PATIENCE)
                    .run()?;
                native::parse_clang(&String::from_utf8_lossy(&output.stderr)).map(|found| {
                    if tune_only {
                        found.tune.map(|tune| format!("-mtune={tune}")).into_iter().collect()
                    } else {
                        native::clang_flags(std::env::consts::ARCH, &found)
                    }
                })
            }
        };
        words
            .filter(|words| !words.is_empty())
            .with_context(|| format!("`{}` does not tell what `{word}` stands for", cc.display()))
    }

    /// The object file of the sample for these machine options.
    fn object(&self, level: &str, words: &[String], folder: &Path) -> anyhow::Result<Vec<u8>> {
        self.place()
            .proc_in(self.cc()?, folder)
            .args([level, "-ffast-math", "-c", "-x", "c", "-", "-o", "hot.o"])
            .args(words)
            .stdin(HOT)
            .timeout(PATIENCE)
            .run()?;
        Ok(fs::read(folder.join("hot.o"))?)
    }
}

/// The compiler's first complaint; a mere warning is one, too: the option may have had no effect.
fn objection(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = || {
        text.lines().map(str::trim).filter(|line| {
            // How many jobs the link uses says nothing about the option.
            !line.is_empty() && !line.starts_with("lto-wrapper: ") && !line.contains("note: ")
        })
    };
    // That the linker failed is what the driver says; why is in the linker's own lines.
    let driver =
        |line: &str| line.contains("ld returned") || line.contains("linker command failed");
    let first = lines()
        .find(|line| !driver(line) && (line.contains("error: ") || line.contains("warning: ")))
        .or_else(|| lines().next());
    match first {
        Some(line) => {
            let words = ["error: ", "warning: "].iter().find_map(|kind| line.split_once(kind));
            Some(words.map_or(line, |(_, rest)| rest).to_owned())
        }
        None if output.status.success() => None,
        None => Some(format!("refused without a word ({})", output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::find;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn cflags(text: &str) -> Options {
        Options { cflags: words(text), cxxflags: words(text), ..Options::default() }
    }

    #[test]
    fn what_the_machine_lacks() {
        let mut toolchain = Toolchain {
            name: "clang".to_owned(),
            family: Family::Clang,
            version: "14.0.6".to_owned(),
            target: String::new(),
            tools: Vec::new(),
            files: Vec::new(),
            digest: crate::hash::Digest::of(b""),
            details: Default::default(),
            sealed: None,
        };
        let linker = Options { ldflags: words("-fuse-ld=lld"), ..Options::default() };
        let cmake = |value: &str| Options {
            cmake: vec![("WITH_LTO".to_owned(), value.to_owned())],
            ..Options::default()
        };
        let lto = [cflags("-O2 -flto=thin"), cflags("-fno-lto -flto"), linker, cmake("ON")];
        let plain = [cflags("-O2"), cflags("-flto -fno-lto"), cmake("off"), Options::default()];
        let old = Cpu { features: words("sse4_2 ssse3").into_iter().collect(), ..Cpu::default() };
        for options in lto.iter().chain(&plain) {
            assert_eq!(lack(&toolchain, options, &old), None, "{options:?}");
        }
        toolchain.details.lto_refusal = Some("no matching lld".to_owned());
        for options in &lto {
            let reason = lack(&toolchain, options, &old).unwrap();
            assert_eq!(reason, "link-time optimisation with clang: no matching lld");
        }
        for options in &plain {
            assert_eq!(lack(&toolchain, options, &old), None, "{options:?}");
        }
        if std::env::consts::ARCH == "x86_64" {
            let reason = lack(&toolchain, &cflags("-O2 -march=x86-64-v3"), &old).unwrap();
            assert!(reason.starts_with("this CPU lacks abm, avx, avx2, bmi1, "), "{reason}");
            assert!(reason.ends_with(", which `-march=x86-64-v3` needs"), "{reason}");
            let reason = lack(&toolchain, &cflags("-msse4.2 -mavx512f"), &old).unwrap();
            assert_eq!(reason, "this CPU lacks avx512f, which `-mavx512f` needs");
        }
        // Where the kernel tells nothing, nothing is missed; and `native` is what is there.
        assert_eq!(lack(&toolchain, &cflags("-mavx512f"), &Cpu::default()), None);
        assert_eq!(lack(&toolchain, &cflags("-march=native"), &old), None);
    }

    fn installed(name: &str, cache: &Path) -> Toolchain {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolchains");
        find(&folder, cache, std::ffi::OsStr::new(crate::proc::PATH), name)
            .unwrap_or_else(|error| panic!("this test needs {name}: {error}"))
    }

    #[test]
    fn both_compilers_resolve_native_and_refuse_in_their_own_words() {
        let cache = tempfile::tempdir().unwrap();
        let cpu = Cpu::this();
        for name in ["gcc", "clang"] {
            let toolchain = installed(name, cache.path());
            let try_with = |text: &str| resolve(&toolchain, &cflags(text), &cpu, cache.path());
            assert_eq!(try_with("-O2 -g").unwrap(), cflags("-O2 -g"));
            for bad in ["-O2 -fno-such-thing", "-march=foo", "-mtune=x86-64-v9"] {
                let refusal = try_with(bad).unwrap_err();
                let word = bad.split(['=', ' ']).next_back().unwrap();
                assert!(refusal.contains(word), "{name} {bad}: {refusal}");
            }
            let resolved = try_with("-O2 -march=native -g").unwrap();
            let flags = &resolved.cflags;
            assert!(flags.len() > 20 && !native::mentions_native(flags), "{flags:?}");
            assert_eq!((flags[0].as_str(), flags.last().unwrap().as_str()), ("-O2", "-g"));
            assert_eq!(resolved.cflags, resolved.cxxflags);
            let required = native::required_features(flags);
            assert!(required.iter().any(|feature| feature == "sse4_2"), "{required:?}");
            assert_eq!(native::missing_on_this_cpu(&required, &cpu), Vec::<String>::new());
            let tuned = try_with("-mtune=native").unwrap();
            assert!(tuned.cflags.iter().any(|flag| flag.starts_with("-mtune=")), "{tuned:?}");
            assert!(!native::mentions_native(&tuned.cflags));
            let begin = std::time::Instant::now();
            assert_eq!(try_with("-O2 -march=native -g").unwrap(), resolved);
            println!("{name}: warm {:?}; {}", begin.elapsed(), flags.join(" "));
            let mut linked = cflags("-O2");
            linked.ldflags = words("-Wl,--no-such-option");
            let refusal = resolve(&toolchain, &linked, &cpu, cache.path()).unwrap_err();
            assert!(refusal.contains("no-such-option"), "{refusal}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn mcpu_native_is_refused_on_x86() {
        let cache = tempfile::tempdir().unwrap();
        let refusal = |name: &str| {
            let toolchain = installed(name, cache.path());
            resolve(&toolchain, &cflags("-mcpu=native"), &Cpu::this(), cache.path()).unwrap_err()
        };
        let clang = refusal("clang");
        assert!(clang.starts_with("argument unused during compilation: '-mcpu=native'"), "{clang}");
        let gcc = refusal("gcc");
        assert!(gcc.contains("-mcpu=") && gcc.contains("is deprecated"), "{gcc}");
    }

    #[test]
    fn different_code_is_told_apart() {
        let cache = tempfile::tempdir().unwrap();
        let toolchain = installed("gcc", cache.path());
        let trial = Trial { toolchain: &toolchain, folder: cache.path() };
        let object = |text: &str| trial.object("-O2", &words(text), cache.path()).unwrap();
        let (plain, again) = (object(""), object(""));
        assert_eq!(elf::loaded(&plain), elf::loaded(&again));
        #[cfg(target_arch = "x86_64")]
        for other in ["-mavx2", "-mbmi", "-mpopcnt", "-mfma", "-mmovbe", "-march=x86-64-v3"] {
            let other_code = object(other);
            assert_ne!(elf::loaded(&plain), elf::loaded(&other_code), "{other}");
        }
    }

    #[test]
    fn native_must_not_hide_in_other_options() {
        let configure = vec!["CFLAGS=-O2 -march=native".to_owned()];
        let error = hidden_native(&Options { configure, ..Options::default() }).unwrap_err();
        assert!(error.contains("hides `-march=native`"), "{error}");
        let fine = vec!["--with-native".to_owned(), "CFLAGS=-march=x86-64".to_owned()];
        assert_eq!(hidden_native(&Options { configure: fine, ..Options::default() }), Ok(()));
    }
}
