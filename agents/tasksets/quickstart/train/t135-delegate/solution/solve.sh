#!/bin/bash
set -e
cd /app
echo 51 > config.txt
echo 58 > index.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo 58 > index.txt"}}' >> /logs/agent/transcript.jsonl
