#!/bin/bash
set -e
cd /app
echo iron > list.txt
echo wizard > test.txt
