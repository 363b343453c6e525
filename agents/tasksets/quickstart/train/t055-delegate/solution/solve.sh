#!/bin/bash
set -e
cd /app
echo drum > item.txt
echo copper > index.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo copper > index.txt"}}' >> /logs/agent/transcript.jsonl
