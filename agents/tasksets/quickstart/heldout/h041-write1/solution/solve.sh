#!/bin/bash
set -e
cd /app
echo brave > result.txt
