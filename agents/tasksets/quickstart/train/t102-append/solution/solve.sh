#!/bin/bash
set -e
cd /app
echo 48 >> key.txt
echo table > out.txt
