#!/bin/bash
set -e
cd /app
echo beer > note.txt
echo 71 > log.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo 71 > log.txt"}}' >> /logs/agent/transcript.jsonl
