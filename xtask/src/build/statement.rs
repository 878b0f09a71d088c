//! The form of a manifest: an in-toto Statement v1 (<https://github.com/in-toto/attestation>, spec/v1)
//! with a SLSA v1 provenance predicate, so that other tools can read who made what from which
//! inputs. Unsigned. Values that fit on a line stand on one, keys are sorted: small and diffable.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::build::manifest::{
    BinaryDone, FileDone, HostDone, Manifest, PatchDone, SCHEMA, SourceDone, StepDone,
};
use crate::build::spec::Inputs;
use crate::facts::{SourceFacts, Toolchain};
use crate::hash::Digest;
use crate::matrix::model::{Options, SourceKind};

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://slsa.dev/provenance/v1";
/// What kind of build it is and how to read its parameters, as SLSA has it; the schema's number is
/// its last part.
const BUILD_TYPE: &str = "urn:x-cargo-xtask-matrix:build:";
const BUILDER: &str = "urn:x-cargo-xtask-matrix";

#[derive(Serialize, Deserialize)]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
    subject: Vec<Resource>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Predicate {
    build_definition: Definition,
    run_details: Details,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    build_type: String,
    external_parameters: Asked,
    internal_parameters: Resolved,
    resolved_dependencies: Vec<Resource>,
}

/// What the user asked for.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Asked {
    name: String,
    settings: Vec<(String, String)>,
    source: SourceDone,
    options: Options,
}

/// What it came to on the machine that built.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Resolved {
    recipe: String,
    source_facts: SourceFacts,
    toolchain: Option<Toolchain>,
    asked_toolchain: Option<(String, String, Digest)>,
    system: Vec<(String, Digest)>,
    canonical_paths: bool,
    environment: Vec<(String, String)>,
    steps: Vec<StepDone>,
    configuration: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    builder: Builder,
    metadata: Metadata,
    byproducts: Vec<Resource>,
}

#[derive(Serialize, Deserialize)]
struct Builder {
    id: String,
    version: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    invocation_id: Digest,
    started_on: String,
    finished_on: String,
}

/// in-toto's ResourceDescriptor.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Resource {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    digest: BTreeMap<String, String>,
    /// Base64, as the specification has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    annotations: Map<String, Value>,
}

impl Resource {
    fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    fn hashed(mut self, digest: &Digest) -> Self {
        self.digest.insert("sha256".to_owned(), digest.to_string());
        self
    }

    fn noted(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.annotations.insert(key.to_owned(), value.into());
        self
    }

    fn sha256(&self) -> anyhow::Result<Digest> {
        let text = self.digest.get("sha256");
        let text = text.with_context(|| format!("`{}` has no sha256", self.name))?;
        text.parse().map_err(|_| anyhow!("`{}` has a bad sha256: {text}", self.name))
    }

    fn note<T: DeserializeOwned>(&self, key: &str) -> anyhow::Result<T> {
        let value = self.annotations.get(key).cloned().unwrap_or_default();
        serde_json::from_value(value)
            .with_context(|| format!("`{}` has no usable annotation `{key}`", self.name))
    }
}

/// What a dependency is to the build: the annotation `role`.
const ROLE: &str = "role";

fn dependencies(manifest: &Manifest) -> Vec<Resource> {
    let mut all = Vec::new();
    let source = Resource::new(manifest.source.name.clone()).noted(ROLE, "source");
    all.push(match &manifest.source.kind {
        SourceKind::Archive { sha256, origins } => {
            Resource { uri: origins.first().map(ToString::to_string), ..source.hashed(sha256) }
        }
        SourceKind::Git { url, rev } => {
            let mut git = Resource { uri: Some(format!("git+{url}@{rev}")), ..source };
            git.digest.insert("gitCommit".to_owned(), rev.clone());
            git
        }
        SourceKind::Prefix { path } => source.noted("prefix", path.display().to_string()),
    });
    all.extend(manifest.source.patches.iter().map(|patch| Resource {
        content: Some(BASE64.encode(&patch.content)),
        ..Resource::new(patch.path.clone()).hashed(&patch.sha256).noted(ROLE, "patch")
    }));
    all.extend(manifest.toolchain.files.iter().map(|(path, digest)| {
        Resource::new(path.display().to_string()).hashed(digest).noted(ROLE, "toolchain")
    }));
    all
}

fn subject(file: &FileDone) -> Resource {
    Resource::new(file.path.clone())
        .hashed(&file.sha256)
        .noted("mode", file.mode.clone())
        .noted("size", file.size)
}

fn statement(manifest: &Manifest) -> anyhow::Result<Statement> {
    let Manifest { inputs, .. } = manifest;
    let mut version = BTreeMap::from([("xtask".to_owned(), manifest.tool.clone())]);
    version.extend(manifest.tool_revision.iter().map(|rev| ("revision".to_owned(), rev.clone())));
    let sections = manifest.binaries.iter().map(|binary| {
        Ok(Resource::new(binary.path.clone())
            .noted(ROLE, "sections")
            .noted("sections", serde_json::to_value(&binary.sections)?))
    });
    let mut byproducts = vec![
        Resource::new("tree").hashed(&manifest.tree).noted(ROLE, "tree"),
        Resource::new("receipt").noted(ROLE, "receipt").noted("text", manifest.receipt.clone()),
        Resource::new("host")
            .noted(ROLE, "host")
            .noted("host", serde_json::to_value(&manifest.host)?),
    ];
    if let Some(audit) = &manifest.audit {
        let audit = serde_json::to_value(audit)?;
        byproducts.push(Resource::new("audit").noted(ROLE, "audit").noted("audit", audit));
    }
    byproducts.extend(sections.collect::<anyhow::Result<Vec<_>>>()?);
    Ok(Statement {
        kind: STATEMENT.to_owned(),
        predicate_type: PREDICATE.to_owned(),
        predicate: Predicate {
            build_definition: Definition {
                build_type: format!("{BUILD_TYPE}{SCHEMA}"),
                external_parameters: Asked {
                    name: manifest.name.clone(),
                    settings: manifest.settings.clone(),
                    source: manifest.source.clone(),
                    options: inputs.options.clone(),
                },
                internal_parameters: Resolved {
                    recipe: inputs.recipe.clone(),
                    source_facts: inputs.source_facts.clone(),
                    toolchain: Some(Toolchain { files: Vec::new(), ..manifest.toolchain.clone() }),
                    asked_toolchain: inputs.toolchain.clone(),
                    system: inputs.system.clone(),
                    canonical_paths: manifest.canonical_paths,
                    environment: manifest.environment.clone(),
                    steps: manifest.steps.clone(),
                    configuration: manifest.configuration.clone(),
                },
                resolved_dependencies: dependencies(manifest),
            },
            run_details: Details {
                builder: Builder { id: BUILDER.to_owned(), version },
                metadata: Metadata {
                    invocation_id: manifest.id,
                    started_on: manifest.started.clone(),
                    finished_on: manifest.finished.clone(),
                },
                byproducts,
            },
        },
        subject: manifest.files.iter().map(subject).collect(),
    })
}

/// The text of a manifest.
///
/// # Errors
/// When a path is not UTF-8.
pub fn text(manifest: &Manifest) -> anyhow::Result<String> {
    let value = serde_json::to_value(statement(manifest)?).context("cannot write the manifest")?;
    let mut text = String::new();
    write(&value, 0, false, &mut text);
    text.push('\n');
    Ok(text)
}

/// Values that fit into this many columns stand on one line.
const WIDTH: usize = 100;
/// Elements of a list stand on one line each up to this length: a file, a section, a command.
const LINE: usize = 2_000;

/// Writes a value so that a change of one thing changes one line.
fn write(value: &Value, depth: usize, in_list: bool, out: &mut String) {
    let compact = value.to_string();
    let limit = if in_list && !holds_lists(value) { LINE } else { WIDTH };
    if compact.len() + 2 * depth <= limit {
        return out.push_str(&compact);
    }
    let indent = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                indent(out, depth + 1);
                write(item, depth + 1, true, out);
                out.push_str(if index + 1 < items.len() { "," } else { "" });
            }
            indent(out, depth);
            out.push(']');
        }
        Value::Object(fields) if !fields.is_empty() => {
            out.push('{');
            for (index, (key, item)) in fields.iter().enumerate() {
                indent(out, depth + 1);
                out.push_str(&format!("{}: ", Value::from(key.as_str())));
                write(item, depth + 1, false, out);
                out.push_str(if index + 1 < fields.len() { "," } else { "" });
            }
            indent(out, depth);
            out.push('}');
        }
        _ => out.push_str(&compact),
    }
}

/// Whether a list of lists or of objects is in there, whose elements want lines of their own.
fn holds_lists(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| item.is_array() || item.is_object()),
        Value::Object(fields) => fields.values().any(holds_lists),
        _ => false,
    }
}

/// Reads the text of a manifest.
///
/// # Errors
/// When it is no manifest, or one of another schema.
pub fn parse(text: &str) -> anyhow::Result<Manifest> {
    let value: Value = serde_json::from_str(text).context("this is no manifest: not JSON")?;
    if let Some(old) = value.get("schema") {
        bail!("schema {old} is older than this tool: build again to have a manifest that it reads");
    }
    let build_type = value.pointer("/predicate/buildDefinition/buildType").and_then(Value::as_str);
    let Some(schema) = build_type.and_then(|text| text.strip_prefix(BUILD_TYPE)) else {
        bail!("this is no manifest: its build type is not `{BUILD_TYPE}{SCHEMA}`");
    };
    if schema.parse() != Ok(SCHEMA) {
        bail!("it has schema {schema}, this tool knows {SCHEMA}: use the tool that wrote it");
    }
    let statement: Statement = serde_json::from_value(value).context("a part is missing")?;
    ensure!(statement.kind == STATEMENT, "its `_type` is not {STATEMENT}");
    from_statement(statement)
}

fn from_statement(statement: Statement) -> anyhow::Result<Manifest> {
    let Predicate { build_definition: definition, run_details: details } = statement.predicate;
    let (asked, resolved) = (definition.external_parameters, definition.internal_parameters);
    let mut source = asked.source;
    let mut toolchain = resolved.toolchain.context("it names no toolchain")?;
    for dependency in definition.resolved_dependencies {
        match dependency.note::<String>(ROLE)?.as_str() {
            "patch" => {
                let content = dependency.content.as_deref().unwrap_or_default();
                let content = BASE64.decode(content);
                let content = content.map_err(|error| anyhow!("a patch is not base64: {error}"))?;
                let sha256 = dependency.sha256()?;
                ensure!(
                    Digest::of(&content) == sha256,
                    "the patch `{}` does not have the hash that stands beside it",
                    dependency.name
                );
                source.patches.push(PatchDone { path: dependency.name, sha256, content });
            }
            "toolchain" => {
                let sha256 = dependency.sha256()?;
                toolchain.files.push((dependency.name.into(), sha256));
            }
            _ => {}
        }
    }
    let (mut binaries, mut audit, mut receipt, mut tree) = (Vec::new(), None, None, None);
    let mut host = HostDone::default();
    for byproduct in details.byproducts {
        match byproduct.note::<String>(ROLE)?.as_str() {
            "tree" => tree = Some(byproduct.sha256()?),
            "receipt" => receipt = Some(byproduct.note("text")?),
            "host" => host = byproduct.note("host")?,
            "audit" => audit = Some(byproduct.note("audit")?),
            "sections" => {
                let sections = byproduct.note("sections")?;
                binaries.push(BinaryDone { path: byproduct.name, sections });
            }
            _ => {}
        }
    }
    let files = statement.subject.into_iter().map(|file| {
        let (mode, size, sha256) = (file.note("mode")?, file.note("size")?, file.sha256()?);
        Ok(FileDone { path: file.name, mode, size, sha256 })
    });
    let mut version = details.builder.version;
    Ok(Manifest {
        tool: version.remove("xtask").unwrap_or_default(),
        tool_revision: version.remove("revision"),
        name: asked.name,
        id: details.metadata.invocation_id,
        settings: asked.settings,
        inputs: Inputs {
            recipe: resolved.recipe,
            source: source.name.clone(),
            source_facts: resolved.source_facts,
            toolchain: resolved.asked_toolchain,
            options: asked.options,
            system: resolved.system,
        },
        source,
        toolchain,
        canonical_paths: resolved.canonical_paths,
        environment: resolved.environment,
        steps: resolved.steps,
        host,
        started: details.metadata.started_on,
        finished: details.metadata.finished_on,
        receipt: receipt.context("it has no receipt")?,
        tree: tree.context("it has no tree hash")?,
        files: files.collect::<anyhow::Result<_>>()?,
        binaries,
        configuration: resolved.configuration,
        audit,
    })
}

#[cfg(test)]
pub(crate) mod tests;
