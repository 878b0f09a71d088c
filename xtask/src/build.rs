//! Builds: what one is ([`spec`]), how an engine is made ([`recipe`], by [`postgres`] or
//! [`cmake`]), how steps are run under one pool of job tokens ([`run`]), what is written down about
//! it ([`manifest`], [`commands`]), and where finished builds lie ([`store`]).

pub mod cmake;
pub mod code;
pub mod commands;
pub mod configuration;
pub mod layout;
pub mod manifest;
pub mod postgres;
pub mod recipe;
pub mod run;
pub mod spec;
pub mod statement;
pub mod store;
pub mod tokens;
pub mod usage;
