#!/bin/bash
set -e
cd /app
cat data.txt
echo yellow > config.txt
