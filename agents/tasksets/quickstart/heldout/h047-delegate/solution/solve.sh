#!/bin/bash
set -e
cd /app
echo spring > info.txt
echo museum > config.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo museum > config.txt"}}' >> /logs/agent/transcript.jsonl
