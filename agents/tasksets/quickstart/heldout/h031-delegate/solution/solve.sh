#!/bin/bash
set -e
cd /app
echo 63 > index.txt
echo camera > memo.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo camera > memo.txt"}}' >> /logs/agent/transcript.jsonl
