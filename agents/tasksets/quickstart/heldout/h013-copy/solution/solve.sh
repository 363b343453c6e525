#!/bin/bash
set -e
cd /app
cp file.txt list.txt
echo autumn > log.txt
