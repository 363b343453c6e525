#!/bin/bash
set -e
cd /app
echo pirate > info.txt
echo 53 > memo.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo 53 > memo.txt"}}' >> /logs/agent/transcript.jsonl
