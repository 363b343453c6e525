#!/bin/bash
set -e
cd /app
echo rice > data.txt
echo garlic > text.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo garlic > text.txt"}}' >> /logs/agent/transcript.jsonl
