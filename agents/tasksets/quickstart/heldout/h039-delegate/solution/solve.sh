#!/bin/bash
set -e
cd /app
echo bird > index.txt
echo garlic > log.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo garlic > log.txt"}}' >> /logs/agent/transcript.jsonl
