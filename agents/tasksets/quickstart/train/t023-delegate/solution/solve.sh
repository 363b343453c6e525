#!/bin/bash
set -e
cd /app
echo 95 > final.txt
echo 52 > memo.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo 52 > memo.txt"}}' >> /logs/agent/transcript.jsonl
