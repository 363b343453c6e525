#!/bin/bash
set -e
cd /app
cat text.txt
echo tomato > log.txt
