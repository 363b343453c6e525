#!/bin/bash
set -e
cd /app
echo 50 > record.txt
echo snow > text.txt
