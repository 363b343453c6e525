#!/bin/bash
set -e
cd /app
cat draft.txt
echo cotton > total.txt
