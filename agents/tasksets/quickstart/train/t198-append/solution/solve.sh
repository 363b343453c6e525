#!/bin/bash
set -e
cd /app
echo black >> config.txt
echo whale > memo.txt
