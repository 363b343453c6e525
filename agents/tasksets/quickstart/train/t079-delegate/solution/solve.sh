#!/bin/bash
set -e
cd /app
echo 65 > note.txt
echo farmer > final.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo farmer > final.txt"}}' >> /logs/agent/transcript.jsonl
