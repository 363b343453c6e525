#!/bin/bash
set -e
cd /app
echo violin > text.txt
echo bread > names.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo bread > names.txt"}}' >> /logs/agent/transcript.jsonl
