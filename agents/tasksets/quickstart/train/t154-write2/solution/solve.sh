#!/bin/bash
set -e
cd /app
echo smart > config.txt
echo mountain > test.txt
