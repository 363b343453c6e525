#!/bin/bash
set -e
cd /app
cp log.txt key.txt
echo wheel > index.txt
