//! The comparison as programs get it.

use super::*;

#[test]
fn json() {
    let one: Vec<Record> = records()
        .into_iter()
        .filter(|r| r.microbenchmark == "random-points" && r.block < 3 && r.target != "pg_os.c")
        .collect();
    check(
        &one,
        TableFormat::Json,
        WIDE,
        &expect![[r#"
            {
              "schema": 2,
              "experiment": "e",
              "base": "pg_o2.c",
              "rule": {
                "delta": 0.03,
                "alpha": 0.05
              },
              "level": 0.95,
              "hosts": [
                {
                  "host": "h",
                  "blocks": 2,
                  "targets": [
                    "pg_o3.c"
                  ],
                  "base-made": {
                    "target": "pg_o2.c",
                    "build": "pg_o2.c",
                    "build-id": "d34313f313b0473f8830e5712d50a5e866218f0a5e38a9bc3005d8e5e33a5e74",
                    "code-id": null,
                    "installed": false,
                    "settings": [
                      [
                        "opt",
                        "o2"
                      ]
                    ],
                    "config": "default",
                    "audit": null,
                    "same-as": null
                  },
                  "made": [
                    {
                      "target": "pg_o3.c",
                      "build": "pg_o3.c",
                      "build-id": "b5143de6829a01e4c5bd9f77bc43c4420f71d54cbfb1d2c76ee4729c3ce3758a",
                      "code-id": null,
                      "installed": false,
                      "settings": [
                        [
                          "opt",
                          "o2"
                        ]
                      ],
                      "config": "default",
                      "audit": null,
                      "same-as": null
                    }
                  ],
                  "rows": [
                    {
                      "microbenchmark": "random-points",
                      "group": "point-2",
                      "threads": 1,
                      "metric": {
                        "name": "qps",
                        "unit": "1/s",
                        "better": "higher"
                      },
                      "base": {
                        "runs": 2,
                        "value": 3459.3714115532584,
                        "server-cpu-us": 80.0,
                        "client-cpu-us": 20.0,
                        "context-switches": 2.0,
                        "read-kib": 0.0,
                        "written-kib": 0.5,
                        "machine-cpu-us": null,
                        "machine-context-switches": null,
                        "device-reads": null,
                        "device-read-kib": null,
                        "device-written-kib": null,
                        "write-amplification": null,
                        "memory-kib": null,
                        "data-kib": null,
                        "p99-us": 300.0
                      },
                      "base-failures": [],
                      "cells": [
                        {
                          "target": "pg_o3.c",
                          "result": {
                            "state": "judged",
                            "ratio": 0.9402799246140597,
                            "low": 0.9155295375852106,
                            "high": 0.9656994125653036,
                            "p": 0.021695881380337664,
                            "adjusted-p": 0.021695881380337664,
                            "verdict": {
                              "word": "slower"
                            },
                            "outliers": false,
                            "estimate": {
                              "mean": -0.06157765590675002,
                              "error": 0.002099367683096709,
                              "df": 1,
                              "pairs": 2,
                              "method": "paired"
                            }
                          },
                          "metrics": {
                            "runs": 2,
                            "value": 3252.7774900673344,
                            "server-cpu-us": 80.0,
                            "client-cpu-us": 20.0,
                            "context-switches": 2.0,
                            "read-kib": 0.0,
                            "written-kib": 0.5,
                            "machine-cpu-us": null,
                            "machine-context-switches": null,
                            "device-reads": null,
                            "device-read-kib": null,
                            "device-written-kib": null,
                            "write-amplification": null,
                            "memory-kib": null,
                            "data-kib": null,
                            "p99-us": 300.0
                          },
                          "failures": []
                        }
                      ]
                    }
                  ],
                  "groups": [
                    {
                      "group": "point-2",
                      "threads": 1,
                      "rows": 1,
                      "cells": [
                        {
                          "target": "pg_o3.c",
                          "spread": {
                            "min": 0.9402799246140597,
                            "max": 0.9402799246140597,
                            "avg": 0.9402799246140597,
                            "median": 0.9402799246140597
                          },
                          "rows": 1,
                          "geomean": {
                            "state": "judged",
                            "ratio": 0.9402799246140597,
                            "low": 0.9155295375852106,
                            "high": 0.9656994125653036,
                            "p": 0.021695881380337664,
                            "adjusted-p": 0.021695881380337664,
                            "verdict": {
                              "word": "slower"
                            },
                            "outliers": false,
                            "estimate": {
                              "mean": -0.06157765590675002,
                              "error": 0.002099367683096709,
                              "df": 1,
                              "pairs": 2,
                              "method": "paired"
                            }
                          },
                          "geomean-rows": 1
                        }
                      ]
                    }
                  ],
                  "drift": null,
                  "warnings": [
                    {
                      "kind": "few-blocks",
                      "text": "2 blocks cannot tell a small difference from noise: measure 5 (`repeats = 5`), at least 3"
                    }
                  ],
                  "notes": []
                }
              ],
              "builds": [],
              "left-out": {
                "other-target": 0,
                "other-workload": 0,
                "repeated": 0,
                "other-boot": 0
              }
            }
        "#]],
    );
}
