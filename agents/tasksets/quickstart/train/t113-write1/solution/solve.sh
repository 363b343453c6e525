#!/bin/bash
set -e
cd /app
echo 77 > record.txt
