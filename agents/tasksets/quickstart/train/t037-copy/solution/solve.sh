#!/bin/bash
set -e
cd /app
cp key.txt record.txt
echo prince > index.txt
