#!/bin/bash
set -e
cd /app
echo teacher > log.txt
echo garlic > result.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo garlic > result.txt"}}' >> /logs/agent/transcript.jsonl
