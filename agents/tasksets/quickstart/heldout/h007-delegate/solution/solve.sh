#!/bin/bash
set -e
cd /app
echo black > log.txt
echo salt > total.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo salt > total.txt"}}' >> /logs/agent/transcript.jsonl
