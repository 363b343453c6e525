#!/bin/bash
set -e
cd /app
echo valley > final.txt
echo forest > note.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo forest > note.txt"}}' >> /logs/agent/transcript.jsonl
